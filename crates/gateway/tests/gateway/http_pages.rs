//! The HTTP listener and web pages: which of their requests reach the app behind it.

use std::net::SocketAddr;

use axum::Router;
use axum::http::HeaderValue;
use axum::routing::any;
use net::http::{HttpListener, WebAccess};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::PATIENCE;

struct Listener {
    address: SocketAddr,
    _stop: watch::Sender<bool>,
}

async fn listen(web: WebAccess, connections_max: usize) -> Listener {
    let bound = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = bound.local_addr().expect("bound");
    let app = Router::new().route("/", any(async || "the app"));
    let busy = Router::new().fallback(any(async || "no room"));
    let stop = watch::Sender::new(false);
    tokio::spawn(HttpListener::new(bound, app, busy, connections_max, web).run(stop.subscribe()));
    Listener { address, _stop: stop }
}

impl Listener {
    /// The answer to a request with these lines as its head, in lower case.
    async fn ask(&self, method: &str, headers: &str) -> String {
        let asked = async {
            let mut stream = TcpStream::connect(self.address).await.expect("it listens");
            let head = format!("{method} / HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            answer.to_ascii_lowercase()
        };
        timeout(PATIENCE, asked).await.expect("in time")
    }

    async fn check(&self, method: &str, headers: &str, expect: &[&str]) {
        let answer = self.ask(method, headers).await;
        for part in expect {
            assert!(answer.contains(part), "{method} {headers}: {part} is not in {answer}");
        }
    }
}

const REFUSED: &[&str] = &["http/1.1 403", "application/problem+json", "\"code\":\"foreign_origin\""];
const ANSWERED: &[&str] = &["http/1.1 200", "the app"];

#[tokio::test]
async fn a_foreign_page_reaches_nothing_where_everything_is_open() {
    let listener = listen(WebAccess::open(&[]), 9).await;
    let own = format!("Host: {0}\r\nOrigin: http://{0}\r\n", listener.address);
    for (headers, expect) in [
        ("Host: localhost:8080\r\n", ANSWERED),
        (&*own, ANSWERED),
        ("Host: evil.example\r\n", REFUSED),
        ("Host: localhost\r\nOrigin: http://evil.example\r\n", REFUSED),
    ] {
        for method in ["GET", "POST", "OPTIONS"] {
            listener.check(method, headers, expect).await;
        }
    }
}

/// Who is told that there is no room may read figures there.
#[tokio::test]
async fn a_full_server_says_no_more_to_foreign_pages() {
    let listener = listen(WebAccess::open(&[]), 0).await;
    listener.check("GET", "Host: localhost\r\n", &["no room"]).await;
    listener.check("GET", "Host: evil.example\r\n", REFUSED).await;
}

#[tokio::test]
async fn a_listed_origin_is_let_in_by_cors() {
    let listener =
        listen(WebAccess::with_tokens(vec![HeaderValue::from_static("https://c.example")]), 9).await;
    let preflight = "Host: depot.example\r\nOrigin: https://c.example\r\nAccess-Control-Request-Method: PATCH\r\n\
                     Access-Control-Request-Headers: authorization,if-match\r\n";
    let allowed = [
        "http/1.1 200",
        "access-control-allow-origin: https://c.example",
        "access-control-allow-methods: get,head,post,put,patch,delete",
        "access-control-allow-headers: authorization,if-match",
    ];
    listener.check("OPTIONS", preflight, &allowed).await;
    assert!(!listener.ask("OPTIONS", preflight).await.contains("the app"), "the app is not asked");
    let told =
        ["the app", "access-control-allow-origin: https://c.example", "access-control-expose-headers:"];
    listener.check("GET", "Host: depot.example\r\nOrigin: https://c.example\r\n", &told).await;
    let other = listener.ask("GET", "Host: depot.example\r\nOrigin: https://evil.example\r\n").await;
    assert!(other.contains("the app") && !other.contains("access-control-allow-origin"), "{other}");
    listener.check("OPTIONS", "Host: depot.example\r\n", ANSWERED).await;
}
