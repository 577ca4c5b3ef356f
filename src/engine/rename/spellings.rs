//! The ways in which a link can name a page, those nearest to how it was written first. Pure: which of them leads there is
//! the graph's to say.

use crate::model::PagePath;

/// Extensions that a link may leave out.
const EXTENSIONS: [&str; 3] = ["md", "mdx", "markdown"];
/// Names of the page that stands for its folder.
const INDEX: [&str; 3] = ["index", "_index", "readme"];

/// A link as it was written, and where it led.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written<'a> {
    /// Whether it stands in double brackets.
    pub(super) wikilink: bool,
    /// Its target.
    pub(super) target: &'a str,
    /// The page that it stood in.
    pub(super) page: &'a PagePath,
    /// The page that it led to.
    pub(super) led_to: &'a str,
    /// Whether that was found at the address that a site generator would give it.
    pub(super) by_site: bool,
}

/// Returns how the page `from` may write a link to `to`, best first; the last ones can always be told from all others.
/// `pages_dir` is the wiki's folder in the repository.
pub(super) fn spellings(
    written: Written<'_>,
    from: &PagePath,
    to: &str,
    pages_dir: &str,
) -> Vec<String> {
    let below = |path: &str| -> Vec<String> {
        let inner = path
            .strip_prefix(pages_dir)
            .map(|rest| rest.trim_start_matches('/'));
        inner
            .unwrap_or(path)
            .split('/')
            .map(str::to_owned)
            .collect()
    };
    let target = written.target.trim();
    let parts: Vec<&str> = target.split('/').filter(|part| !part.is_empty()).collect();
    let last = parts.last().copied().unwrap_or_default();
    let with_extension = without_extension(last) != last;
    let slash = target.len() > 1 && target.ends_with('/');
    let whole = below(to);
    let named = |with_extension: bool| -> Vec<String> {
        let mut named = whole.clone();
        if !with_extension && let Some(last) = named.last_mut() {
            *last = without_extension(last).to_owned();
        }
        named
    };
    let mut here = below(from.as_str());
    let stem = here.pop().map(|name| without_extension(&name).to_owned());
    let is_index = |name: &str| {
        INDEX
            .iter()
            .any(|index| index.eq_ignore_ascii_case(without_extension(name)))
    };
    let mut list = List {
        slash,
        list: Vec::new(),
    };

    // A link to a folder stays one where the page still stands for its folder.
    let mut forms = vec![named(with_extension)];
    let stands = whole.last().is_some_and(|name| is_index(name));
    if stands && !is_index(last) {
        let mut folder = whole.clone();
        folder.pop();
        forms.insert(0, folder);
    }
    for form in &forms {
        let dotted = matches!(parts.first(), Some(&("." | "..")));
        let led = below(written.led_to);
        if target.starts_with('/') {
            // The site's root may be a folder below the wiki's.
            for cut in (1..led.len()).rev() {
                let site = led[..cut].iter().eq(form.iter().take(cut));
                if site && written.by_site {
                    list.absolute(&form[cut..]);
                }
            }
            list.absolute(form);
        } else if dotted || (!written.wikilink && stood_beside(written, pages_dir, &led)) {
            if written.by_site {
                list.relative(&beside(&here, stem.as_deref()), form, dotted);
            }
            list.relative(&here, form, dotted && parts.first() == Some(&"."));
        } else {
            if written.by_site {
                list.relative(&beside(&here, stem.as_deref()), form, false);
            }
            // As many parts as there were, then more of them.
            let count = parts.len().clamp(1, form.len().max(1));
            for count in count..=form.len() {
                list.plain(&form[form.len() - count..]);
            }
            if !written.wikilink {
                list.relative(&here, form, false);
            }
        }
    }
    for with_extension in [with_extension, true] {
        let form = named(with_extension);
        list.slash = false;
        if !written.wikilink {
            list.relative(&here, &form, true);
        }
        list.absolute(&form);
    }
    list.list
}

/// Whether a link without dots led to where it points from the folder of its page.
fn stood_beside(written: Written<'_>, pages_dir: &str, led: &[String]) -> bool {
    let folder = written.page.folder();
    let inner = folder.strip_prefix(pages_dir).unwrap_or(folder);
    let place = inner
        .split('/')
        .chain(written.target.split('/'))
        .filter(|part| !part.is_empty() && *part != ".");
    let mut at: Vec<&str> = Vec::new();
    for part in place {
        if part == ".." {
            at.pop();
        } else {
            at.push(part);
        }
    }
    let bare = |parts: &[&str]| {
        let mut parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        if let Some(last) = parts.last_mut() {
            *last = without_extension(last).to_owned();
        }
        parts
    };
    let led: Vec<&str> = led.iter().map(String::as_str).collect();
    bare(&at) == bare(&led) || at.len() + 1 == led.len() && led.starts_with(&at)
}

fn beside(here: &[String], stem: Option<&str>) -> Vec<String> {
    here.iter()
        .cloned()
        .chain(stem.map(str::to_owned))
        .collect()
}

fn without_extension(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, ext))
            if !stem.is_empty()
                && EXTENSIONS
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(ext)) =>
        {
            stem
        }
        _ => name,
    }
}

/// The spellings so far.
struct List {
    /// Whether each ends in a slash.
    slash: bool,
    list: Vec<String>,
}

impl List {
    fn push(&mut self, mut text: String) {
        if self.slash && !text.ends_with('/') {
            text.push('/');
        }
        if !text.is_empty() && !self.list.contains(&text) {
            self.list.push(text);
        }
    }

    fn plain(&mut self, parts: &[String]) {
        if !parts.is_empty() {
            self.push(parts.join("/"));
        }
    }

    fn absolute(&mut self, parts: &[String]) {
        self.push(format!("/{}", parts.join("/")));
    }

    fn relative(&mut self, here: &[String], parts: &[String], with_dot: bool) {
        let mut text = relative(here, parts);
        if with_dot && !text.starts_with('.') {
            text.insert_str(0, "./");
        }
        self.push(if text.is_empty() {
            "./".to_owned()
        } else {
            text
        });
    }
}

/// Returns the way from a folder to a place, with `..` as often as needed.
pub(super) fn relative<S: AsRef<str>, T: AsRef<str>>(here: &[S], place: &[T]) -> String {
    let common = here
        .iter()
        .zip(place)
        .take_while(|(a, b)| a.as_ref() == b.as_ref())
        .count();
    let up = std::iter::repeat_n("..", here.len() - common);
    let down = place[common..].iter().map(AsRef::as_ref);
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(wikilink: bool, target: &str, page: &str, led_to: &str, to: &str) -> Vec<String> {
        let page = PagePath::parse(page).expect("a path");
        let written = Written {
            wikilink,
            target,
            page: &page,
            led_to,
            by_site: false,
        };
        spellings(written, &page, to, "w")
    }

    #[test]
    fn a_link_stays_as_it_was_written_where_it_can() {
        for (wikilink, target, page, led_to, to, expected) in [
            (true, "b", "w/a.md", "w/b.md", "w/x/c.md", "c"),
            (true, "b.md", "w/a.md", "w/b.md", "w/x/c.md", "c.md"),
            (true, "x/b", "w/a.md", "w/x/b.md", "w/y/z/b.md", "z/b"),
            (true, "/x/b", "w/a.md", "w/x/b.md", "w/y/b.md", "/y/b"),
            (true, "../b", "w/s/a.md", "w/b.md", "w/y/b.md", "../y/b"),
            (false, "b.md", "w/a.md", "w/b.md", "w/x/c.md", "x/c.md"),
            (false, "./b.md", "w/a.md", "w/b.md", "w/x/c.md", "./x/c.md"),
            (false, "b.md", "w/s/a.md", "w/s/b.md", "w/c.md", "../c.md"),
            (
                false, "x/b.md", "w/s/a.md", "w/x/b.md", "w/y/b.md", "y/b.md",
            ),
            (false, "/x/b.md", "w/a.md", "w/x/b.md", "w/c.md", "/c.md"),
            (false, "x/", "w/a.md", "w/x/index.md", "w/y/index.md", "y/"),
            (false, "x/", "w/a.md", "w/x/README.md", "w/y/z.md", "y/z/"),
        ] {
            let list = first(wikilink, target, page, led_to, to);
            assert_eq!(list[0], expected, "{target} in {page}: {list:?}");
        }
    }

    #[test]
    fn the_way_from_a_folder() {
        let way = |here: &[&str], place: &[&str]| relative(here, place);
        assert_eq!(way(&["a", "b"], &["a", "c.md"]), "../c.md");
        assert_eq!(way(&[], &["c.md"]), "c.md");
        assert_eq!(way(&["a"], &["a"]), "");
    }
}
