//! `zellige explore`: the web page, from inside the program.

mod server;

use crate::common::print_text;
use crate::exit_code::ExitCode;
use anyhow::{Context, Result, bail};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(clap::Args)]
#[command(after_help = "\
The page is one file that asks the network for nothing, and it is served to this machine alone, under
the names localhost, 127.0.0.1 and [::1] (with any port, so that it may be forwarded); explorer/dist/index.html opens without a
server too. `./explorer/serve` builds it into this program and runs it.

Examples:
  zellige explore
  zellige explore --port 8080
  zellige explore --page explorer/dist/index.html")]
pub(crate) struct ExploreArgs {
    /// The port on this machine; 0 takes a free one
    #[arg(long, default_value_t = 7331)]
    port: u16,
    /// Serve this file instead of the page inside the program
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

/// The page, where the program was built with it.
#[cfg(feature = "explorer")]
const PAGE: Option<&[u8]> = Some(include_bytes!("../../../explorer/dist/index.html"));
#[cfg(not(feature = "explorer"))]
const PAGE: Option<&[u8]> = None;

pub(crate) fn run_explore(args: &ExploreArgs) -> Result<ExitCode> {
    let page: Arc<[u8]> = match (&args.page, PAGE) {
        (Some(file), _) => {
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?.into()
        }
        (None, Some(page)) => page.into(),
        (None, None) => bail!(
            "this program was built without the page\n\
             `./explorer/serve` builds both and opens it; by hand: `./explorer/build`, then\n\
             `cargo build --release --features explorer`, or name the file with --page"
        ),
    };
    // Only this machine: nobody else is meant to see it.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .with_context(|| format!("cannot listen on port {}", args.port))?;
    let address = listener.local_addr()?;
    print_text(&format!("http://{address}/  (Ctrl-C stops it)"))?;
    server::serve_all(&listener, &page, server::LIMITS)
}
