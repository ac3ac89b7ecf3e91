//! What cores send to each other, as plain data: a table of senders and receivers.

use serde::Serialize;

/// Bytes from every core to every core.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CoreTraffic {
    /// The heading.
    pub title: String,
    /// A sentence below it.
    pub caption: String,
    /// The cores, as rows and as columns.
    pub cores: Vec<u32>,
    /// Bytes by row (sender) and column (receiver); what stays on a core is on the diagonal.
    pub bytes: Vec<Vec<i64>>,
}

impl CoreTraffic {
    /// The largest number of bytes between two different cores.
    pub(crate) fn most_remote_bytes(&self) -> i64 {
        let cells = self.bytes.iter().enumerate().flat_map(|(from, row)| {
            row.iter().enumerate().filter(move |(to, _)| *to != from).map(|(_, n)| *n)
        });
        cells.max().unwrap_or(0)
    }
}

/// The table for a terminal: a row for each sender, a column for each receiver.
///
/// `o` stays on its core; `1` to `9` is a share of the most that a core sends to another one, so that uneven traffic is
/// seen at once.
pub fn render_core_traffic_text(traffic: &CoreTraffic) -> String {
    let width = traffic.cores.iter().map(|c| c.to_string().len()).max().unwrap_or(1);
    let most = traffic.most_remote_bytes().max(1);
    let mut out = String::new();
    // The numbers of the columns are written downwards: a column of the table is one character wide.
    for digit in 0..width {
        out.push_str(&" ".repeat(width + 1));
        for core in &traffic.cores {
            let number = format!("{core:>width$}");
            out.push(number.chars().nth(digit).unwrap_or(' '));
        }
        out.push('\n');
    }
    for (from, (core, row)) in traffic.cores.iter().zip(&traffic.bytes).enumerate() {
        out.push_str(&format!("{core:>width$} "));
        for (to, bytes) in row.iter().enumerate() {
            out.push(match *bytes {
                0 => '.',
                _ if from == to => 'o',
                n => char::from_digit(share_of_nine(n, most), 10).unwrap_or('9'),
            });
        }
        out.push('\n');
    }
    out
}

/// From 1 to 9, rounded up, so that little is still something.
fn share_of_nine(bytes: i64, most: i64) -> u32 {
    let share = (9 * i128::from(bytes) + i128::from(most) - 1) / i128::from(most);
    u32::try_from(share).unwrap_or(9).clamp(1, 9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_senders_and_shares_are_rounded_up() {
        let traffic = CoreTraffic {
            title: String::new(),
            caption: String::new(),
            cores: vec![0, 2, 11],
            bytes: vec![vec![64, 0, 900], vec![1, 0, 0], vec![0, 100, 0]],
        };
        let text = render_core_traffic_text(&traffic);
        assert_eq!(text, "     1\n   021\n 0 o.9\n 2 1..\n11 .1.\n");
        assert_eq!(render_core_traffic_text(&CoreTraffic::default()), "  \n");
    }
}
