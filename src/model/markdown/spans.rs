//! Ranges of a text, in rising order.

use std::ops::Range;

/// Ranges in rising order that do not overlap.
#[derive(Debug, Default, Clone)]
pub(super) struct Spans(Vec<Range<usize>>);

impl Spans {
    /// Sorts ranges and joins those that overlap.
    pub(super) fn of(mut ranges: Vec<Range<usize>>) -> Self {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Self(joined)
    }

    /// Returns the spans in order.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, Range<usize>> {
        self.0.iter()
    }

    /// Returns the first span that ends after `offset`.
    pub(super) fn ending_after(&self, offset: usize) -> Option<&Range<usize>> {
        let at = self.0.partition_point(|span| span.end <= offset);
        self.0.get(at)
    }

    /// Returns the span in which the byte at `offset` stands.
    pub(super) fn around(&self, offset: usize) -> Option<&Range<usize>> {
        self.ending_after(offset)
            .filter(|span| span.start <= offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_spans_are_one() {
        let spans = Spans::of(vec![7..9, 1..3, 2..5, 5..6, 4..4]);
        assert_eq!(spans.0, [1..5, 5..6, 7..9]);
        assert_eq!(spans.around(4), Some(&(1..5)));
        assert_eq!(spans.around(6), None);
        assert_eq!(spans.ending_after(6), Some(&(7..9)));
        assert_eq!(spans.ending_after(9), None);
    }
}
