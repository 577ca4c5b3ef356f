//! The functions that each page goes through, alone: `scripts/bench hot` (Criterion; compares with its last run).
//!
//! The whole program beside its floors is timed by `scripts/bench`; this tells which of them became slower.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wiki_sync::embed::{bm25, passage};
use wiki_sync::model::markdown::{Document, fold_key};
use wiki_sync::model::{ContentSha, Job, PagePath};

/// A page of some 8 KiB: metadata, sections, links, lists and code, in the words given.
fn page(words: &str) -> String {
    let mut text = format!("---\ntitle: {words}\ntags: [one, two]\n---\n\n# {words}\n");
    for section in 0..12 {
        write!(
            text,
            "\n## {words} {section}\n\n{words} [[folder/page-{section}|label]] and [text](../other.md#part). {words}.\n\n\
             - {words}\n- `code` {words}\n\n```rust\nfn main() {{ println!(\"[[no link]]\"); }}\n```\n\n{words}. {words}.\n"
        )
        .expect("writing to a string cannot fail");
    }
    text
}

const ENGLISH: &str =
    "The outbox brings a page to every store, again and again until each of them holds it";
const KOREAN: &str =
    "아웃박스 패턴은 여러 저장소를 결국 일관되게 맞추며 실패한 작업을 다시 시도한다";

fn pages(c: &mut Criterion) {
    let path = PagePath::parse("wiki-output/folder/page.md").expect("a path");
    for (language, words) in [("english", ENGLISH), ("korean", KOREAN)] {
        let text = page(words);
        let mut group = c.benchmark_group(language);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function("sha", |b| {
            b.iter(|| ContentSha::of(black_box(text.as_bytes())));
        });
        group.bench_function("parse", |b| {
            b.iter(|| Document::parse(&path, black_box(&text)));
        });
        let document = Document::parse(&path, &text);
        group.bench_function("words of all sections", |b| {
            b.iter(|| {
                for section in &document.sections {
                    let passage = passage(&document.title, &section.trail, &section.text);
                    black_box(bm25::document(&document.title, &passage));
                }
            });
        });
        group.bench_function("a query's words", |b| {
            b.iter(|| bm25::query(black_box(words)));
        });
        group.bench_function("fold a name", |b| b.iter(|| fold_key(black_box(words))));
        group.finish();
    }
}

fn jobs(c: &mut Criterion) {
    let mut group = c.benchmark_group("jobs");
    let path = "wiki-output/folder/folder/some page.md";
    group.bench_function("a path", |b| {
        b.iter(|| PagePath::parse(black_box(path)));
    });
    let sha = ContentSha::of(b"text");
    let line = Job::for_page(PagePath::parse(path).expect("a path"), Some(sha)).to_line();
    group.bench_function("a line of the wire", |b| {
        b.iter(|| Job::from_line(black_box(&line)));
    });
    group.finish();
}

criterion_group!(benches, pages, jobs);
criterion_main!(benches);
