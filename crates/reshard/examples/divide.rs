//! `zellige reshard` without the rest of the program, for measurements: `divide reshard IN OUT --plan PLAN --threads N`.

use zellige_reshard::checkpoint::{Job, Limits};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [_, input, output, _, plan, _, threads] = args.as_slice() else {
        return Err("reshard IN OUT --plan PLAN --threads N".into());
    };
    let job = Job::new(input, &std::fs::read_to_string(plan)?)?;
    job.run(output, Limits { memory: 256 << 20, threads: threads.parse()? }, |_| {})?;
    Ok(job.close(output)?)
}
