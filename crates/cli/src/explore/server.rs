//! One page over HTTP, for a browser on this machine.
//!
//! Whatever connects, the server stays bounded: so many connections at once, so long for a request to
//! arrive, and so long for its answer to be read. A request must name this machine as its host, so that
//! a page under a foreign name that was made to resolve to this machine (DNS rebinding) reads nothing from it.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What connections may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionLimits {
    /// Connections that are open at once; a further one is refused with 503.
    connections: usize,
    /// From the beginning of a connection to the end of its request.
    request: Duration,
    /// From there to the last byte of the answer.
    answer: Duration,
}

/// A browser opens six connections to one host. A page of some megabytes takes a minute through a slow
/// tunnel.
pub(super) const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 100,
    request: Duration::from_secs(5),
    answer: Duration::from_secs(60),
};

/// The longest request that is read, in bytes.
// Browsers send a few kilobytes; what is longer is no request for this page.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// The names of this machine that a request may say.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Serves the page to every connection, for as long as the program runs.
pub(super) fn serve_all(listener: &TcpListener, page: &Arc<[u8]>, limits: ConnectionLimits) -> ! {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // The system may be out of descriptors; they are free again when connections close.
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        // Counted before the thread starts, because otherwise many connections could arrive between the check and
        // the count.
        let place = ConnectionSlot::take_slot(&open);
        if place.count > limits.connections {
            refuse_connection(&stream);
            continue;
        }
        let page = Arc::clone(page);
        // A browser opens several connections and may leave some of them silent. Where no thread can be
        // had, the connection is closed.
        let _ = std::thread::Builder::new().name("explore".into()).spawn(move || {
            let _place = place;
            let _ = serve_connection(stream, &page, limits);
        });
    }
}

/// One of the connections that are open, until it is dropped.
struct ConnectionSlot {
    open: Arc<AtomicUsize>,
    /// The connections with this one.
    count: usize,
}

impl ConnectionSlot {
    fn take_slot(open: &Arc<AtomicUsize>) -> ConnectionSlot {
        ConnectionSlot { count: open.fetch_add(1, Ordering::Relaxed) + 1, open: Arc::clone(open) }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Says that there are too many connections, without waiting for anybody.
fn refuse_connection(mut stream: &TcpStream) {
    let said = http_reply("503 Service Unavailable", "text/plain", b"too many connections\n", true);
    // A client that does not read must not hold up the loop that accepts the others.
    let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(&said));
}

fn serve_connection(
    mut stream: TcpStream,
    page: &[u8],
    limits: ConnectionLimits,
) -> std::io::Result<()> {
    let deadline = Instant::now() + limits.request;
    let head = match read_head(&mut stream, deadline) {
        Ok(head) => head,
        Err(e) if is_late(&e) => {
            // The client hears why it is cut off, and gets a new deadline for that, as its own has passed.
            let late = http_reply(
                "408 Request Timeout",
                "text/plain",
                b"the request took too long\n",
                true,
            );
            return write_by(&mut stream, &late, Instant::now() + limits.request);
        }
        Err(e) => return Err(e),
    };
    write_by(&mut stream, &answer_head(&head, page), Instant::now() + limits.answer)
}

/// The head of a request up to its empty line, or what there is of one that is too long or was cut off.
fn read_head(stream: &mut TcpStream, deadline: Instant) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !is_whole(&head) && head.len() < MAX_HEAD_BYTES {
        // Set anew for every read: a timeout for each call alone would let a client that sends a byte now and then
        // stay for ever.
        stream.set_read_timeout(Some(time_left(deadline)?))?;
        match stream.read(&mut part)? {
            0 => break,
            n => head.extend_from_slice(&part[..n]),
        }
    }
    Ok(head)
}

/// Writes everything before the deadline: a reader that takes a byte now and then gets no more time.
fn write_by(stream: &mut TcpStream, mut bytes: &[u8], deadline: Instant) -> std::io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(time_left(deadline)?))?;
        match stream.write(bytes)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            n => bytes = &bytes[n..],
        }
    }
    Ok(())
}

/// The time until the deadline; an error where it has passed.
fn time_left(deadline: Instant) -> std::io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn is_late(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|w| w == b"\r\n\r\n")
}

/// The whole answer to a request.
fn answer_head(head: &[u8], page: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (method, target, version) = (word(), word(), word());
    let path = target.split('?').next().unwrap_or_default();
    let plain = |status, body: &[u8]| http_reply(status, "text/plain", body, method != "HEAD");
    if !is_whole(head) || method.is_empty() {
        let status = match head.len() {
            MAX_HEAD_BYTES.. => "431 Request Header Fields Too Large",
            _ => "400 Bad Request",
        };
        return plain(status, b"not a request\n");
    }
    let fields: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    match named_host(&fields) {
        // HTTP/1.0 has no Host field; RFC 9112, section 3.2, asks for exactly one in HTTP/1.1.
        RequestHost::None if version == "HTTP/1.0" => {}
        RequestHost::Known => {}
        RequestHost::None | RequestHost::Several => {
            return plain("400 Bad Request", b"a request names one Host\n");
        }
        RequestHost::Unknown => {
            let accepted =
                format!("the page is served to the Host names {}\n", LOCAL_HOSTS.join(", "));
            return plain("421 Misdirected Request", accepted.as_bytes());
        }
    }
    match (method, path) {
        ("GET" | "HEAD", "/" | "/index.html") => {
            let policy = served_policy(page);
            let fields = format!("Content-Security-Policy: {policy}\r\nX-Frame-Options: DENY\r\n");
            reply_with_fields("200 OK", "text/html; charset=utf-8", &fields, page, method != "HEAD")
        }
        ("GET" | "HEAD", _) => plain("404 Not Found", b"the page is at /\n"),
        _ => plain("405 Method Not Allowed", b"only GET and HEAD\n"),
    }
}

/// What the fields of a request say about its host.
enum RequestHost {
    None,
    Several,
    Known,
    Unknown,
}

fn named_host(fields: &[&str]) -> RequestHost {
    let hosts: Vec<&str> = fields
        .iter()
        .filter_map(|field| field.split_once(':'))
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("host"))
        .map(|(_, value)| value.trim())
        .collect();
    match hosts.as_slice() {
        [] => RequestHost::None,
        [one] if is_known_host(one) => RequestHost::Known,
        [_] => RequestHost::Unknown,
        _ => RequestHost::Several,
    }
}

/// Whether this is a name of this machine, with or without a port.
fn is_known_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    LOCAL_HOSTS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The policy that a page states for itself, and that no other page may show it in a frame: a policy inside a page
/// cannot say that. The page may be any file of the user, and only what cannot end a header field is taken from it.
fn served_policy(page: &[u8]) -> String {
    // The policy is among the first tags; the engine behind them is megabytes of text.
    let head = String::from_utf8_lossy(&page[..page.len().min(8192)]);
    let own = head
        .split_once("http-equiv=\"Content-Security-Policy\" content=\"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .map(|(policy, _)| policy)
        .filter(|p| p.bytes().all(|b| (0x20..0x7f).contains(&b)));
    match own {
        Some(policy) => format!("{policy}; frame-ancestors 'none'"),
        None => "frame-ancestors 'none'".into(),
    }
}

fn http_reply(status: &str, kind: &str, body: &[u8], with_body: bool) -> Vec<u8> {
    reply_with_fields(status, kind, "", body, with_body)
}

/// A reply with header fields of its own; each ends with a line break.
fn reply_with_fields(
    status: &str,
    kind: &str,
    fields: &str,
    body: &[u8],
    with_body: bool,
) -> Vec<u8> {
    // `no-store`, because the page changes with every build of the program at the same address.
    let mut reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n{fields}Connection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    if with_body {
        reply.extend_from_slice(body);
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr};

    fn status(request: &[u8]) -> String {
        let reply = String::from_utf8(answer_head(request, b"<page>")).expect("text");
        reply.lines().next().unwrap_or_default().to_string()
    }

    #[test]
    fn a_page_is_served_with_its_own_policy_and_in_no_frame() {
        let page =
            b"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'\"><p>";
        let reply = answer_head(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", page);
        let reply = String::from_utf8(reply).expect("text");
        let field = "\r\nContent-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n";
        assert!(reply.contains(field), "{reply}");
        // A policy that would end the field, or none.
        let broken =
            b"<meta http-equiv=\"Content-Security-Policy\" content=\"a\r\nSet-Cookie: b\">";
        for page in [&broken[..], b"<page>"] {
            assert_eq!(served_policy(page), "frame-ancestors 'none'");
        }
    }

    #[test]
    fn one_page_and_nothing_else() {
        let reply = answer_head(b"GET /?a=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"<page>");
        let reply = String::from_utf8(reply).expect("text");
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
        assert!(reply.contains("Content-Length: 6\r\n"), "{reply}");
        assert!(reply.ends_with("\r\n\r\n<page>"), "{reply}");
        let head = answer_head(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"<page>");
        assert!(head.ends_with(b"\r\n\r\n"));
        let of = |line: &str| status(format!("{line}\r\nHost: 127.0.0.1:7331\r\n\r\n").as_bytes());
        assert_eq!(of("GET /../etc/passwd HTTP/1.1"), "HTTP/1.1 404 Not Found");
        assert_eq!(of("POST / HTTP/1.1"), "HTTP/1.1 405 Method Not Allowed");
        for bad in
            [&b""[..], b"\r\n\r\n", b"\xff\xfe\x00", b"GET / HTTP/1.1\r\nHost: localhost\r\n"]
        {
            assert!(status(bad).starts_with("HTTP/1.1 4"), "{bad:?}");
        }
    }

    #[test]
    fn only_names_of_this_machine() {
        let of = |fields: &str| status(format!("GET / HTTP/1.1\r\n{fields}\r\n").as_bytes());
        for host in ["localhost", "LocalHost:8080", "127.0.0.1:7331", "[::1]:7331", "[::1]"] {
            assert_eq!(
                of(&format!("Accept: */*\r\nhost:  {host} \r\n")),
                "HTTP/1.1 200 OK",
                "{host}"
            );
        }
        for host in [
            "x",
            "evil.example:7331",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "localhost:x",
            "::1",
        ] {
            let got = of(&format!("Host: {host}\r\n"));
            assert_eq!(got, "HTTP/1.1 421 Misdirected Request", "{host}");
        }
        assert_eq!(of(""), "HTTP/1.1 400 Bad Request");
        assert_eq!(of("Host: localhost\r\nHost: x\r\n"), "HTTP/1.1 400 Bad Request");
        assert_eq!(status(b"GET / HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 OK");
    }

    /// A server with its own limits on a free port of this machine; it ends with the test program.
    fn start(page: &[u8], limits: ConnectionLimits) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let page: Arc<[u8]> = page.into();
        std::thread::spawn(move || -> () { serve_all(&listener, &page, limits) });
        address
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).expect("listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a duration");
        stream
    }

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

    /// The first line of what is answered, until the connection is closed.
    fn ask(mut stream: TcpStream) -> String {
        let _ = stream.write_all(REQUEST);
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        String::from_utf8_lossy(&reply).lines().next().unwrap_or_default().to_string()
    }

    #[test]
    fn connections_are_counted_and_given_back() {
        let request = Duration::from_secs(1);
        let limits = ConnectionLimits { connections: 8, request, answer: request };
        let address = start(b"<page>", limits);
        let silent: Vec<TcpStream> = (0..8).map(|_| connect(address)).collect();
        let refused: Vec<String> = (0..20).map(|_| ask(connect(address))).collect();
        assert!(refused.iter().all(|l| !l.contains("200")), "{refused:?}");
        assert!(refused.iter().any(|l| l.contains("503")), "{refused:?}");
        for mut stream in silent {
            let mut reply = String::new();
            stream.read_to_string(&mut reply).expect("closed");
            assert!(reply.starts_with("HTTP/1.1 408 "), "{reply}");
        }
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(ask(connect(address)), "HTTP/1.1 200 OK");
    }

    /// Bytes that keep coming do not move the deadline of a request.
    #[test]
    fn a_request_has_a_deadline() {
        let request = Duration::from_millis(600);
        let limits = ConnectionLimits { connections: 8, request, answer: request };
        let mut stream = connect(start(b"<page>", limits));
        let begun = Instant::now();
        let mut slow = stream.try_clone().expect("a socket");
        std::thread::spawn(move || {
            while slow.write_all(b"G").is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert!(reply.is_empty() || reply.starts_with(b"HTTP/1.1 408 "), "{reply:?}");
    }

    /// A reader that takes a little now and then does not hold its place.
    #[test]
    fn an_answer_has_a_deadline() {
        let limit = Duration::from_millis(600);
        let page = vec![b'x'; 64 << 20];
        let address =
            start(&page, ConnectionLimits { connections: 1, request: limit, answer: limit });
        let mut stream = connect(address);
        stream.write_all(REQUEST).expect("sends");
        let begun = Instant::now();
        let mut part = [0; 1024];
        let mut status = String::new();
        while begun.elapsed() < Duration::from_secs(10) && !status.contains("200") {
            let _ = stream.read(&mut part);
            std::thread::sleep(Duration::from_millis(50));
            let mut other = connect(address);
            let _ = other.write_all(REQUEST);
            let mut first = [0; 15];
            let _ = other.read_exact(&mut first);
            status = String::from_utf8_lossy(&first).into_owned();
        }
        assert_eq!(status, "HTTP/1.1 200 OK", "the place of the slow reader is free again");
    }
}
