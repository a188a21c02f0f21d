//! A server that gives one answer to every call, in as much HTTP/2 as that takes: a real cluster
//! with a wrong key or an old version is hard to come by.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// What it says to every call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Says {
    /// A gRPC status and its message.
    Status(u8, &'static str),
    /// A message whose first field is this text: the version, where one is asked for.
    Text(&'static str),
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Starts it. It lives as long as the process. Returns `host:port`.
pub(crate) fn start(says: Says) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it has an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A caller that hangs up has heard enough.
            std::thread::spawn(move || serve(stream, says).ok());
        }
    });
    address.to_string()
}

fn serve(mut stream: TcpStream, says: Says) -> std::io::Result<()> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface)?;
    frame(&mut stream, SETTINGS, 0, 0, &[])?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let [a, b, c, kind, flags, s3, s2, s1, s0] = head;
        let length = u32::from_be_bytes([0, a, b, c]);
        let mut body = vec![0; usize::try_from(length).unwrap_or_default()];
        stream.read_exact(&mut body)?;
        let of = u32::from_be_bytes([s3, s2, s1, s0]);
        match kind {
            SETTINGS | PING if flags & ACK == 0 => {
                frame(&mut stream, kind, ACK, 0, &body_of(kind, body))?;
            }
            HEADERS => answer(&mut stream, of, says)?,
            _ => {}
        }
    }
}

/// Settings are acknowledged empty, a ping with what it brought.
fn body_of(kind: u8, body: Vec<u8>) -> Vec<u8> {
    if kind == PING { body } else { Vec::new() }
}

fn answer(stream: &mut TcpStream, of: u32, says: Says) -> std::io::Result<()> {
    // `:status: 200` is number 8 of the static table.
    let mut head = vec![0x88];
    header(&mut head, "content-type", "application/grpc");
    match says {
        Says::Status(status, message) => {
            header(&mut head, "grpc-status", &status.to_string());
            header(&mut head, "grpc-message", message);
            frame(stream, HEADERS, END_HEADERS | END_STREAM, of, &head)
        }
        Says::Text(text) => {
            frame(stream, HEADERS, END_HEADERS, of, &head)?;
            let length = u8::try_from(text.len()).expect("it is short");
            let mut body = vec![0, 0, 0, 0, length + 2, 0x0a, length];
            body.extend(text.as_bytes());
            frame(stream, DATA, 0, of, &body)?;
            let mut end = Vec::new();
            header(&mut end, "grpc-status", "0");
            frame(stream, HEADERS, END_HEADERS | END_STREAM, of, &end)
        }
    }
}

/// A literal header without indexing.
fn header(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        block.push(u8::try_from(text.len()).expect("it is short"));
        block.extend(text.as_bytes());
    }
}

fn frame(stream: &mut TcpStream, kind: u8, flags: u8, of: u32, body: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(body.len())
        .expect("it is short")
        .to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(of.to_be_bytes());
    bytes.extend(body);
    stream.write_all(&bytes)
}
