//! `zellige explore`: the web page, from inside the program.

use crate::common::print;
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

#[derive(clap::Args)]
#[command(after_help = "\
The page is one file that asks the network for nothing; explorer/dist/index.html opens without a
server too. `./explorer/serve` builds it into this program and runs it.

Examples:
  zellige explore
  zellige explore --port 8080
  zellige explore --page explorer/dist/index.html")]
pub(crate) struct Args {
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

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
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
    print(&format!("http://{address}/  (Ctrl-C stops it)"))?;
    for stream in listener.incoming() {
        let page = Arc::clone(&page);
        // A browser opens several connections and may leave some of them silent.
        std::thread::spawn(move || {
            if let Ok(stream) = stream {
                let _ = serve(stream, &page);
            }
        });
    }
    Ok(ExitCode::SUCCESS)
}

/// The longest request that is read.
const HEAD: usize = 16 * 1024;
/// How long a connection may stay silent.
const PATIENCE: Duration = Duration::from_secs(5);

fn serve(mut stream: TcpStream, page: &[u8]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|w| w == b"\r\n\r\n") && head.len() < HEAD {
        match stream.read(&mut part)? {
            0 => break,
            n => head.extend_from_slice(&part[..n]),
        }
    }
    stream.write_all(&answer(&head, page))
}

/// The whole answer to a request.
fn answer(head: &[u8], page: &[u8]) -> Vec<u8> {
    let line = head.split(|b| *b == b'\r').next().unwrap_or_default();
    let mut words = line.split(|b| *b == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|b| *b == b'?').next().unwrap_or_default();
    let (status, kind, body): (_, _, &[u8]) = match (method, path) {
        (b"GET" | b"HEAD", b"/" | b"/index.html") => ("200 OK", "text/html; charset=utf-8", page),
        (b"GET" | b"HEAD", _) => ("404 Not Found", "text/plain", b"the page is at /\n"),
        (b"", _) => ("400 Bad Request", "text/plain", b"not a request\n"),
        _ => ("405 Method Not Allowed", "text/plain", b"only GET and HEAD\n"),
    };
    let mut reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    if method != b"HEAD" {
        reply.extend_from_slice(body);
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &[u8]) -> String {
        let reply = String::from_utf8(answer(request, b"<page>")).expect("text");
        reply.lines().next().unwrap_or_default().to_string()
    }

    #[test]
    fn one_page_and_nothing_else() {
        let reply = String::from_utf8(answer(b"GET /?a=1 HTTP/1.1\r\n\r\n", b"<page>"));
        let reply = reply.expect("text");
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
        assert!(reply.contains("Content-Length: 6\r\n"), "{reply}");
        assert!(reply.ends_with("\r\n\r\n<page>"), "{reply}");
        let head = answer(b"HEAD / HTTP/1.1\r\n\r\n", b"<page>");
        assert!(head.ends_with(b"\r\n\r\n"));
        assert_eq!(status(b"GET /../etc/passwd HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
        assert_eq!(status(b"POST / HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
        for bad in [&b""[..], b"\r\n\r\n", b"\xff\xfe\x00"] {
            assert!(status(bad).starts_with("HTTP/1.1 4"), "{bad:?}");
        }
    }
}
