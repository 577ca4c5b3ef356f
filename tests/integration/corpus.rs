//! A larger wiki, made up of the kinds of pages people have.

use crate::wiki::Wiki;

#[test]
fn a_few_hundred_pages_go_through_in_few_commits_and_the_next_drain_is_a_no_op() {
    let wiki = Wiki::with(&[]);
    for n in 0..300 {
        let (a, b) = ((n * 7) % 300, (n * 13) % 310);
        wiki.write(
            &format!("wiki-output/d{}/page-{n}.md", n % 12),
            format!(
                "---\ntitle: Page {n}\ntags: [t{}, 한글]\n---\n# Page {n}\n\nSee [[page-{a}]] and [other](../d{}/page-{b}.md#top).\n\n## 둘째\n\n본문 {n}번 페이지는 [[없는-{n}]]을 가리킨다.\n\n```rust\nlet x = \"[[not a link]]\";\n```\n",
                n % 5,
                b % 12
            ),
        );
    }
    let first = wiki.drain();
    assert_eq!(
        (&first["processed"], &first["dlq"]),
        (&300.into(), &0.into()),
        "{first}"
    );
    assert_eq!(
        wiki.git(&["rev-list", "--count", "HEAD"]),
        "2\n",
        "one commit of all pages"
    );
    wiki.assert_in_sync();
    let again = wiki.drain();
    assert_eq!(
        (&again["enqueued"], &again["processed"]),
        (&0.into(), &0.into()),
        "{again}"
    );
}
