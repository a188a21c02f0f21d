//! A tiny listener that says how an application is: `/metrics` for Prometheus, `/health/live` and
//! `/health/ready` for whatever restarts processes or sends them work.
//!
//! Only as much of HTTP as such callers speak: one GET per connection, and an answer with a
//! length. What is not understood is refused, what is too long or too slow is dropped.

use std::net::SocketAddr;
use std::time::Duration;

use outlast::{App, Health, metrics::Metrics};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::out;
use crate::stop::Stop;

/// A request longer than this is not for us.
const LONGEST: usize = 8 * 1024;
/// A caller that takes longer than this is gone.
const PATIENCE: Duration = Duration::from_secs(5);

const TEXT: &str = "text/plain; charset=utf-8";

/// Serves until it is dropped.
#[derive(Debug)]
pub(crate) struct Listening(JoinHandle<()>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Listens at this address and says where: port 0 is any that is free.
pub(crate) async fn listen(address: SocketAddr, app: App) -> Result<Listening, Stop> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Stop::Failure(format!(
            "{address} cannot be listened at: {error}; choose another with --metrics"
        ))
    })?;
    let here = listener.local_addr()?;
    out::line(&format!(
        "metrics: http://{here}/metrics, /health/live, /health/ready"
    ));
    Ok(Listening(tokio::spawn(async move {
        loop {
            // A connection that could not be accepted is its caller's trouble.
            if let Ok((caller, _)) = listener.accept().await {
                let answered = answer(caller, app.clone());
                drop(tokio::spawn(tokio::time::timeout(PATIENCE, answered)));
            }
        }
    })))
}

async fn answer(mut caller: TcpStream, app: App) {
    let Some(line) = request_line(&mut caller).await else {
        return;
    };
    let reply = reply(&line, &app);
    drop(app);
    // Whoever has hung up does not want to know.
    drop(caller.write_all(&reply).await);
    drop(caller.shutdown().await);
}

/// The first line of a request, once all of its head is here.
async fn request_line(caller: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = caller.read(&mut part).await.ok()?;
        if read == 0 || head.len() + read > LONGEST {
            return None;
        }
        head.extend_from_slice(&part[..read]);
    }
    let text = String::from_utf8_lossy(&head);
    text.lines().next().map(str::to_owned)
}

fn reply(line: &str, app: &App) -> Vec<u8> {
    let mut words = line.split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    if method != Some("GET") {
        return http(
            "405 Method Not Allowed",
            TEXT,
            "only GET is answered here\n",
        );
    }
    match target.split('?').next().unwrap_or_default() {
        "/metrics" => http(
            "200 OK",
            Metrics::CONTENT_TYPE,
            &app.metrics().to_prometheus(),
        ),
        "/health/live" => health(app.health().live, &app.health()),
        "/health/ready" => health(app.health().ready, &app.health()),
        _ => http(
            "404 Not Found",
            TEXT,
            "there are /metrics, /health/live, /health/ready\n",
        ),
    }
}

fn health(is_well: bool, health: &Health) -> Vec<u8> {
    let reasons: Vec<String> = health
        .reasons
        .iter()
        .map(|why| format!("{why}\n"))
        .collect();
    match (is_well, reasons.is_empty()) {
        (true, true) => http("200 OK", TEXT, "ok\n"),
        (true, false) => http("200 OK", TEXT, &reasons.concat()),
        (false, _) => http("503 Service Unavailable", TEXT, &reasons.concat()),
    }
}

fn http(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}
