//! Links, hostile pages, and what is bounded.

use super::*;

/// Renders with a wiki of these pages and files.
fn rendered(text: &str) -> Rendered {
    let lead = |wanted: &BTreeSet<Wanted>| {
        let leads = wanted.iter().map(|(kind, target)| {
            let lead = match target.as_str() {
                "b" | "b.md" => Lead::Page {
                    path: "w/b.md".into(),
                    ambiguous: false,
                },
                "i.png" => Lead::File("w/i.png".into()),
                "two" => Lead::Page {
                    path: "w/1/two.md".into(),
                    ambiguous: true,
                },
                "x.pdf" => Lead::Other,
                _ => Lead::Missing,
            };
            ((*kind, target.clone()), lead)
        });
        leads.collect()
    };
    render(&Readable::of(text), "Title", lead)
}

fn html(text: &str) -> String {
    rendered(text).html.trim().to_owned()
}

#[test]
fn links_lead_where_the_graph_says() {
    let rel = "rel=\"noopener noreferrer nofollow\"";
    for (text, expected) in [
        (
            "[[b]]",
            format!("<a href=\"/page?path=w/b.md\" {rel}>b</a>"),
        ),
        (
            "[[b#Part One|x *y*]]",
            format!("<a href=\"/page?path=w/b.md#h-part-one\" {rel}>x *y*</a>"),
        ),
        (
            "[t](b.md)",
            format!("<a href=\"/page?path=w/b.md\" {rel}>t</a>"),
        ),
        (
            "[[two]]",
            format!("<a href=\"/page?path=w/1/two.md\" class=\"ambiguous\" {rel}>two</a>"),
        ),
        ("[[none]]", "<span class=\"broken\">none</span>".into()),
        ("[p](x.pdf)", "<span class=\"elsewhere\">p</span>".into()),
        ("[[#Part]]", format!("<a href=\"#h-part\" {rel}>#Part</a>")),
        (
            "[o](https://x.example/)",
            format!("<a href=\"https://x.example/\" class=\"outside\" {rel}>o</a>"),
        ),
        (
            "![a](i.png)",
            "<img src=\"/file?path=w/i.png\" alt=\"a\">".into(),
        ),
        (
            "x <img src=i.png alt=a>",
            "x <img src=\"/file?path=w/i.png\" alt=\"a\">".into(),
        ),
        (
            "![a](https://x.example/i.png)",
            format!("<a href=\"https://x.example/i.png\" class=\"outside\" {rel}>a</a>"),
        ),
        (
            "![](data:image/png;base64,AA==)",
            "<img src=\"data:image/png;base64,AA==\" alt=\"\">".into(),
        ),
    ] {
        assert_eq!(html(text), format!("<p>{expected}</p>"), "{text}");
    }
    let block = "<img src=\"/file?path=w/i.png\" alt=\"a\">";
    assert_eq!(html("<img src=i.png alt=a>"), block);
}

#[test]
fn a_hostile_page_does_nothing_and_loads_nothing() {
    for text in [
        "<script>alert(1)</script>",
        "x <script src=//evil.example/x.js></script>",
        "<svg onload=alert(1)><a href=javascript:x>",
        "<img src=x onerror=alert(1)> <img src=https://evil.example/x.png>",
        "<iframe src=https://evil.example></iframe>",
        "[x](javascript:alert(1)) [y](JaVaScRiPt:alert(1)) [z](data:text/html,x)",
        "<javascript:alert(1)> <a href=\"javascript:alert(1)\">x</a>",
        "[x](vbscript:x) [y](//evil.example/) ![z](//evil.example/i.png)",
        "<form action=/dead/act method=post><input name=all></form>",
        "<style>@import url(https://evil.example/)</style>",
        "<link rel=stylesheet href=https://evil.example/x.css>",
        "<base href=https://evil.example/>",
        "<meta http-equiv=refresh content='0;url=https://evil.example'>",
        "<p style='background:url(https://evil.example/)'>x</p>",
        "<table background=https://evil.example/x><tr><td>x</table>",
        "<video src=https://evil.example/x autoplay></video><audio src=x>",
        "<math><mi xlink:href=javascript:x>",
        "![x](data:image/svg+xml;base64,AA==)",
        "[x](wikilink:99) [y](wikilink:-1)",
        "<details open ontoggle=alert(1)>x</details>",
    ] {
        let html = html(text).to_lowercase();
        for bad in [
            "<script",
            "<svg",
            "<iframe",
            "=\"javascript:",
            "=\"vbscript:",
            "onerror",
            "onload",
            "ontoggle",
            "<form",
            "<input",
            "<style",
            "<link",
            "<base",
            "<meta",
            "style=",
            "background",
            "<video",
            "<audio",
            "<math",
            "=\"data:",
            "src=\"http",
            "src=\"//",
            "href=\"//",
        ] {
            assert!(!html.contains(bad), "{text} → {html}");
        }
    }
}

#[test]
fn plain_html_and_all_that_markdown_has_is_shown() {
    let text = "# Title\n\n## Part One\n\n| a | b |\n|--:|:-:|\n| 1 | 2 |\n\n- [x] done\n\n~~no~~ <kbd>K</kbd> $x$[^1]\n\n[^1]: note\n\n<details><summary>S</summary>\n\nin **it**\n\n</details>\n";
    let Rendered { html, outline, .. } = rendered(text);
    assert!(!html.contains(">Title<"), "the title stands above: {html}");
    for part in [
        "<h3 id=\"h-part-one\">Part One</h3>",
        "<td align=\"right\">1</td>",
        "☑ done",
        "<del>no</del>",
        "<kbd>K</kbd>",
        "<code>x</code><sup>1</sup>",
        "<summary>S</summary>",
        "in <strong>it</strong>",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert_eq!(outline, [(2, "Part One".into(), "h-part-one".into())]);
}

#[test]
fn one_tilde_strikes_nothing_out() {
    for (text, expected) in [
        ("~text~", "~text~"),
        ("~5 s and ~6 s", "~5 s and ~6 s"),
        ("it takes ~5, or~ ~6~.", "it takes ~5, or~ ~6~."),
        ("~~gone~~", "<del>gone</del>"),
        ("~a ~~b~~ c~", "~a <del>b</del> c~"),
    ] {
        assert_eq!(html(text), format!("<p>{expected}</p>"), "{text}");
    }
    let page = rendered("## ~5 and ~6\n");
    assert!(page.html.contains(">~5 and ~6<"), "{}", page.html);
}

#[test]
fn of_a_piece_of_markdown_what_a_reader_reads_is_left() {
    for (text, expected) in [
        ("**bold** and `code`", "bold and code"),
        (
            "[[sub/c#x|there]] and [t](b.md) ![i](i.png)",
            "there and t i",
        ),
        (
            "# Head\n\n- one\n- [x] two\n\n| a | b |\n|---|---|\n| 1 | 2 |",
            "Head one two a b 1 2",
        ),
        (
            "<b>x</b> &amp; ~5 to ~6 **never closed",
            "x & ~5 to ~6 **never closed",
        ),
        ("---\nfoo: bar\n---\nrest", "foo: bar rest"),
        ("", ""),
    ] {
        assert_eq!(plain(text), expected, "{text}");
    }
}

#[test]
fn a_table_without_an_end_is_cut_where_a_browser_has_enough() {
    let table = format!(
        "|{}\n|{}\n{}",
        "a|".repeat(60),
        "-|".repeat(60),
        format!("|{}\n", "b|".repeat(60)).repeat(4_000)
    );
    let page = rendered(&table);
    assert!(page.is_cut);
    let cells = page.html.matches("<td>").count();
    assert!((15_000..25_000).contains(&cells), "{cells}");
    assert!(page.html.ends_with("</table>"), "closed");
    let thai = rendered(&"ภาษาไทย".repeat(20_000));
    assert!(thai.html.matches("<wbr>").count() > 250);
}

#[test]
fn a_page_of_ten_thousand_headings_and_a_huge_table_stay_bounded() {
    let text = "## Same\n\n".repeat(10_000);
    let page = rendered(&text);
    assert_eq!(page.outline.len(), OUTLINE);
    assert!(page.html.contains("h-same-9999") && !page.is_cut);
    let wide = format!(
        "|{}\n|{}\n{}",
        "a|".repeat(5000),
        "-|".repeat(5000),
        "|\n".repeat(5000)
    );
    assert!(rendered(&wide).html.len() < 8 << 20);
    // Tags that are never closed would be opened again in each paragraph.
    let open: Vec<_> = (0..2000)
        .map(|n| format!("<font a={n}><b x={n}>"))
        .collect();
    let open = open.join(
        "

",
    );
    assert!(
        rendered(&format!("{open}{}", "x\n\n".repeat(20_000)))
            .html
            .len()
            < 8 << 20
    );
    let deep = "<div>".repeat(50_000) + &"x\n\n".repeat(10_000);
    assert!(rendered(&deep).html.len() < 8 << 20);
}
