//! Speed of the simulated card: how fast this machine computes what the card would, beside numpy and
//! PyTorch in float32 in the same run.

mod cases;
mod peers;

use anyhow::Result;
use cases::{DeviceCase, DeviceTiming};
use peers::DevicePeers;

/// Rounds of which the best counts: a product that waits for a thread which a neighbour has stopped
/// would be timed on the neighbour.
const ROUNDS: usize = 15;

/// Prints the table, row by row; `words` choose cases by their names.
pub(crate) fn run_device_cases(words: &[String]) -> Result<()> {
    let mut peers = DevicePeers::start_python();
    println!(
        "| case | goal | ours | GB/s or GFLOP/s | plain copy or read | numpy float32 | torch \
         float32 | best other / ours |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    for case in
        cases::all_cases().iter().filter(|c| words.iter().all(|w| c.name.contains(w.as_str())))
    {
        let ours = case.measure_case(ROUNDS);
        let theirs = match case.peer {
            Some(op) => peers.time_operation(op, &case.sizes, ROUNDS),
            None => [Err(String::new()), Err(String::new())],
        };
        println!("{}", table_line(case, &ours, &theirs));
    }
    println!("\n{}", peers.library_versions());
    Ok(())
}

fn table_line(case: &DeviceCase, ours: &DeviceTiming, theirs: &[Result<f64, String>; 2]) -> String {
    let shown = |t: &Result<f64, String>| match t {
        Ok(seconds) => format_milliseconds(*seconds),
        Err(why) => why.clone(),
    };
    let maybe = |t: Option<f64>| t.map_or(String::new(), format_milliseconds);
    let (numpy, torch) = (shown(&theirs[0]), shown(&theirs[1]));
    let goal = case.goal.map_or(String::new(), |goal| format!("{goal:.2}"));
    let f = match ours {
        Ok(figures) => figures,
        Err(why) => {
            return format!("| {} | {goal} | {why} | | | {numpy} | {torch} | |", case.name);
        }
    };
    let others = theirs.iter().filter_map(|t| t.as_ref().ok()).copied().chain(f.copy);
    let ratio = others.reduce(f64::min).map_or(String::new(), |t| format!("{:.2}", t / f.ours));
    let rate = case.units / f.ours / 1e9;
    format!(
        "| {} | {goal} | {} | {rate:.1} | {} | {numpy} | {torch} | {ratio} |",
        case.name,
        format_milliseconds(f.ours),
        maybe(f.copy),
    )
}

fn format_milliseconds(seconds: f64) -> String {
    format!("{:.2} ms", seconds * 1e3)
}
