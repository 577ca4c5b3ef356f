//! Offsets to line numbers.

/// Turns byte offsets into line numbers, going forward only: asked in rising order, all questions together
/// read the text once.
pub(super) struct Lines<'a> {
    text: &'a [u8],
    offset: usize,
    line: usize,
}

impl<'a> Lines<'a> {
    /// Starts at line 1 of a text whose lines end in `\n` or `\r\n`.
    pub(super) fn of(text: &'a str) -> Self {
        Self {
            text: text.as_bytes(),
            offset: 0,
            line: 1,
        }
    }

    /// Returns the line, from 1, in which the byte at `offset` stands. An offset before the last one asked
    /// costs a new start.
    #[expect(
        clippy::naive_bytecount,
        reason = "the compiler makes vector code of it; no crate for one count"
    )]
    pub(super) fn at(&mut self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        if offset < self.offset {
            (self.offset, self.line) = (0, 1);
        }
        self.line += self.text[self.offset..offset]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        self.offset = offset;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_give_lines_in_any_order() {
        let mut lines = Lines::of("a\nb\r\nc\n\nd");
        let asked: Vec<usize> = [0, 1, 2, 5, 7, 8, 99, 2]
            .map(|offset| lines.at(offset))
            .into();
        assert_eq!(asked, [1, 1, 2, 3, 4, 5, 5, 2]);
    }
}
