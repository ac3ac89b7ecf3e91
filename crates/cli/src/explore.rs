//! `zellige explore`: the web page, from inside the program.

mod server;

use crate::common::print_text;
use crate::exit_code::ExitCode;
use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, IsTerminal};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

#[derive(clap::Args)]
#[command(after_help = "\
The page is one file that asks the network for nothing, and it is served to this machine alone, under
the names localhost, 127.0.0.1 and [::1] (with any port, so that it may be forwarded); explorer/dist/index.html opens without a
server too. A program that was built without the page serves the one that `./explorer/build` wrote, looked for
in explorer/dist of this folder and of the folders above the program; `./explorer/serve` builds both and runs it.

Examples:
  zellige explore
  zellige explore --port 8080 --no-open
  zellige explore --page explorer/dist/index.html")]
pub(crate) struct ExploreArgs {
    /// The port on this machine; 0 takes a free one [default: 7331]
    #[arg(long)]
    port: Option<u16>,
    /// Only print the address: a browser is opened where a terminal asked for the page on a screen of this machine
    #[arg(long)]
    no_open: bool,
    /// Serve this file instead of the page inside the program
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

/// The page, where the program was built with it.
#[cfg(feature = "explorer")]
const PAGE: Option<&[u8]> = Some(include_bytes!("../../../explorer/dist/index.html"));
#[cfg(not(feature = "explorer"))]
const PAGE: Option<&[u8]> = None;

/// The port where none is asked for.
const DEFAULT_PORT: u16 = 7331;

pub(crate) fn run_explore(args: &ExploreArgs) -> Result<ExitCode> {
    let page: Arc<[u8]> = match (&args.page, PAGE) {
        (Some(file), _) => read_page(file)?,
        (None, Some(page)) => page.into(),
        (None, None) => match find_built_page() {
            Some(file) => read_page(&file)?,
            None => bail!(
                "this program was built without the page, and there is no explorer/dist/index.html\n\
                 here or above the program\n\
                 `./explorer/build` writes it; then `zellige explore` serves it, here or with --page"
            ),
        },
    };
    // Only this machine: nobody else is meant to see it.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port.unwrap_or(DEFAULT_PORT)))
        .or_else(|e| match (e.kind(), args.port) {
            // Nobody asked for this port, and a second page is no reason to fail.
            (ErrorKind::AddrInUse, None) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)),
            _ => Err(e),
        })
        .with_context(|| {
            let port = args.port.unwrap_or(DEFAULT_PORT);
            format!("cannot listen on port {port}; `--port 0` takes a free one")
        })?;
    let address = listener.local_addr()?;
    print_text(&format!("http://{address}/  (Ctrl-C stops it)"))?;
    if !args.no_open && std::io::stdout().is_terminal() && has_screen() {
        open_browser(&format!("http://{address}/"));
    }
    server::serve_all(&listener, &page, server::LIMITS)
}

fn read_page(file: &Path) -> Result<Arc<[u8]>> {
    Ok(std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?.into())
}

/// The page that `./explorer/build` wrote: under the working folder, or under a folder above the program, which is
/// where it is when the program runs from the `target` of the repository.
fn find_built_page() -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    let above = program.iter().flat_map(|p| p.ancestors().skip(1).map(Path::to_path_buf));
    let folders = std::env::current_dir().ok().into_iter().chain(above);
    folders.map(|folder| folder.join("explorer/dist/index.html")).find(|page| page.is_file())
}

/// Whether a browser would have a screen. A shell on another machine has none, and its user forwards the port.
fn has_screen() -> bool {
    let named = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    cfg!(any(target_os = "macos", target_os = "windows"))
        || named("DISPLAY")
        || named("WAYLAND_DISPLAY")
        || named("BROWSER")
}

/// Opens the user's browser. Where that fails the address has been printed, and that is enough.
fn open_browser(address: &str) {
    let browser = std::env::var("BROWSER").ok().filter(|b| !b.is_empty());
    let mut command = match browser {
        Some(program) => Command::new(program),
        None if cfg!(target_os = "macos") => Command::new("open"),
        None if cfg!(target_os = "windows") => Command::new("explorer"),
        None => Command::new("xdg-open"),
    };
    let quiet =
        command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = quiet.spawn();
}
