//! A server that answers what a test has written down for it: for what a good server does too
//! rarely to be waited for.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Gives its answers in order, one a connection, and then stops listening.
pub(crate) struct Scripted {
    pub(crate) url: String,
    thread: JoinHandle<Vec<Asked>>,
}

/// A request that came.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) body: String,
}

/// An answer with this status line, headers and body.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}")
}

impl Scripted {
    pub(crate) fn new(answers: Vec<String>) -> Self {
        Self::over("http", answers, |stream, answer| exchange(&stream, answer))
    }

    /// The same over TLS.
    pub(crate) fn with_tls(config: Arc<ServerConfig>, answers: Vec<String>) -> Self {
        Self::over("https", answers, move |stream, answer| {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a right configuration");
            let mut stream = StreamOwned::new(connection, stream);
            let asked = exchange(&mut stream, answer);
            stream.conn.send_close_notify();
            stream.flush().map(|()| asked).expect("it listens")
        })
    }

    fn over(
        scheme: &str,
        answers: Vec<String>,
        exchange: impl Fn(TcpStream, &str) -> Asked + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let url = format!("{scheme}://{}", listener.local_addr().expect("it is bound"));
        let serve = move || {
            let next = || listener.accept().expect("it is asked").0;
            answers.iter().map(|answer| exchange(next(), answer)).collect()
        };
        Self { url, thread: std::thread::spawn(serve) }
    }

    /// All requests; every answer has been asked for.
    pub(crate) fn asked(self) -> Vec<Asked> {
        self.thread.join().expect("it does not panic")
    }
}

/// Reads a request and answers it. An empty answer closes the connection instead.
fn exchange(stream: impl Read + Write, answer: &str) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).expect("a head"), 0, "it ended in its head: {head}");
    }
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).expect("a body");
    reader.get_mut().write_all(answer.as_bytes()).expect("it listens");
    Asked { head, body: String::from_utf8(body).expect("text") }
}
