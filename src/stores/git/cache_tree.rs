//! The `TREE` extension: trees that git has already written for parts of the index.

/// One folder of the extension.
struct Node {
    name: Vec<u8>,
    /// Entries below it; negative when the folder has changed since its tree was written.
    count: i64,
    id: Vec<u8>,
    folders: Vec<Node>,
}

/// Returns the extension with every folder on the way to each of `paths` marked as changed. Empty when
/// the extension cannot be read: git makes it anew.
pub(super) fn invalidate<'a>(data: &[u8], paths: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut rest = data;
    let Some(mut root) = read(&mut rest, 0) else {
        return Vec::new();
    };
    for path in paths {
        let mut node = Some(&mut root);
        let mut parts = path.split(|&byte| byte == b'/').peekable();
        while let (Some(here), Some(part)) = (node, parts.next()) {
            here.count = -1;
            if parts.peek().is_none() {
                // A folder that has become a file.
                here.folders.retain(|folder| folder.name != part);
                break;
            }
            node = here.folders.iter_mut().find(|folder| folder.name == part);
        }
    }
    let mut out = Vec::with_capacity(data.len());
    write(&mut out, &root);
    out
}

/// Folders deeper than any file system allows mean that the bytes are no such extension.
const DEEPEST: usize = 2048;

fn read(rest: &mut &[u8], depth: usize) -> Option<Node> {
    if depth > DEEPEST {
        return None;
    }
    let name = until(rest, 0)?.to_vec();
    let count = std::str::from_utf8(until(rest, b' ')?).ok()?.parse().ok()?;
    let folders: usize = std::str::from_utf8(until(rest, b'\n')?)
        .ok()?
        .parse()
        .ok()?;
    let mut node = Node {
        name,
        count,
        id: Vec::new(),
        folders: Vec::new(),
    };
    if count >= 0 {
        let (id, after) = rest.split_at_checked(20)?;
        node.id = id.to_vec();
        *rest = after;
    }
    for _ in 0..folders {
        node.folders.push(read(rest, depth + 1)?);
    }
    Some(node)
}

fn until<'a>(rest: &mut &'a [u8], stop: u8) -> Option<&'a [u8]> {
    let at = rest.iter().position(|&byte| byte == stop)?;
    let (part, after) = rest.split_at(at);
    *rest = &after[1..];
    Some(part)
}

fn write(out: &mut Vec<u8>, node: &Node) {
    out.extend(&node.name);
    out.push(0);
    out.extend(format!("{} {}\n", node.count, node.folders.len()).bytes());
    if node.count >= 0 {
        out.extend(&node.id);
    }
    for folder in &node.folders {
        write(out, folder);
    }
}
