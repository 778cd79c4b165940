//! Who may call: the tokens of the HTTP API, over TLS too.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use grpc::proto::commands_client::CommandsClient;
use grpc::proto::jobs_client::JobsClient;
use grpc::proto::new_command::Notify;
use grpc::proto::reports_client::ReportsClient;
use grpc::proto::rollouts_client::RolloutsClient;
use grpc::proto::streams_client::StreamsClient;
use grpc::proto::work_request::Open;
use grpc::proto::{
    AppendRequest, CancelCommandRequest, CreateRolloutRequest, GetRequest, ListRolloutsRequest, NewCommand,
    NewRollout, NewStreamMessage, PublishResponse, ReadRequest, Report, RetryCommandRequest,
    SendCommandRequest, SendRequest, SendResponse, WorkRequest, get_request, new_stream_message,
};
use rustls::pki_types::ServerName;
use simulator::server::{RunningServer, Site};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::grpc::rig::{BINARY, NS, PATIENCE, QUEUE, Rig, numbered, publish, refused};
use crate::wire;

/// Each token is called like its name.
const TOKENS: [(&str, &str); 8] = [
    ("admin", "admin"),
    ("reader", "read"),
    ("sender", "report"),
    ("commander", "commands"),
    ("mailer", "jobs:mail"),
    ("printer", "jobs:print"),
    ("producer", "streams:mail:append"),
    ("follower", "streams:mail:read"),
];

pub(crate) struct Guarded {
    pub(crate) site: Site,
    _server: RunningServer,
    _folder: tempfile::TempDir,
}

impl Guarded {
    pub(crate) async fn start() -> Self {
        Self::start_in(tempfile::tempdir().expect("a folder"), "").await
    }

    /// With these lines in the file before the tokens.
    pub(crate) async fn start_in(folder: tempfile::TempDir, lines: &str) -> Self {
        let config = folder.path().join("f.toml");
        let tokens = TOKENS.map(|(name, scope)| {
            let digest: String = {
                use sha2::Digest;
                sha2::Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect()
            };
            format!("[[auth.tokens]]\nname = \"{name}\"\nsha256 = \"{digest}\"\nscopes = [\"{scope}\"]\n")
        });
        fs::write(&config, format!("{lines}\n{}", tokens.concat())).expect("written");
        let mut site = Site::new(Path::new(BINARY), &[]).expect("a directory");
        // The program gets its arguments behind these, and the last thing that it is told is the
        // file.
        let script = format!("exec \"$@\" --config {}", config.display());
        site.start_through(["sh", "-c", &script, "sh"]);
        let server = site.start(PATIENCE).await.expect("a server");
        Self { site, _server: server, _folder: folder }
    }

    pub(crate) fn address(&self) -> String {
        let text = fs::read(self.site.log_path().with_file_name("ready.json")).expect("it was written");
        let ready: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        ready["grpc"].as_str().expect("gRPC is on").to_owned()
    }

    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address())).expect("an address");
        endpoint.connect().await.expect("it listens")
    }
}

pub(crate) fn by<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if !token.is_empty() {
        let value = format!("Bearer {token}").parse().expect("printable");
        request.metadata_mut().insert("authorization", value);
    }
    request
}

#[tokio::test]
async fn a_token_reaches_as_far_as_over_http() {
    let server = Guarded::start().await;
    let channel = server.channel().await;
    let mut jobs = JobsClient::new(channel.clone());
    let look = || GetRequest {
        namespace: NS.to_owned(),
        queue: QUEUE.to_owned(),
        job: Some(get_request::Job::Alias("none".to_owned())),
    };
    let denied = (Code::PermissionDenied, "forbidden".to_owned());
    let unknown = (Code::Unauthenticated, "unauthorized".to_owned());
    for (token, publishes, looks) in [
        ("admin", true, true),
        ("mailer", true, true),
        ("reader", false, true),
        ("printer", false, false),
        ("sender", false, false),
    ] {
        let published = jobs.publish(by(token, publish(vec![numbered(1)]))).await;
        if publishes {
            assert_eq!(published.expect(token).into_inner().jobs.len(), 1);
        } else {
            assert_eq!(refused(published), denied, "{token}");
        }
        let looked = refused(jobs.get(by(token, look())).await);
        let expect = if looks { (Code::NotFound, "unknown_job".to_owned()) } else { denied.clone() };
        assert_eq!(looked, expect, "{token}");
    }
    for token in ["", "nobody"] {
        assert_eq!(refused(jobs.get(by(token, look())).await), unknown, "{token}");
    }
    let mut reports = ReportsClient::new(channel.clone());
    let batches = || futures_util::stream::iter([SendRequest::default()]);
    assert!(reports.send(by("sender", batches())).await.is_ok());
    assert_eq!(refused(reports.send(by("mailer", batches())).await), denied);
    let health = HealthClient::new(channel).check(HealthCheckRequest::default()).await;
    assert!(health.is_ok(), "health is told to anybody");
}

#[tokio::test]
async fn streams_take_the_scopes_of_their_namespace() {
    let server = Guarded::start().await;
    let mut streams = StreamsClient::new(server.channel().await);
    let denied = (Code::PermissionDenied, "forbidden".to_owned());
    let payload = Some(new_stream_message::Payload::Json("1".into()));
    let messages = vec![NewStreamMessage { payload, ..NewStreamMessage::default() }];
    for (token, namespace, appends, reads) in [
        ("admin", NS, true, true),
        ("producer", NS, true, false),
        ("producer", "other", false, false),
        ("follower", NS, false, true),
        ("reader", NS, false, true),
        ("mailer", NS, false, false),
    ] {
        let (namespace, stream) = (namespace.to_owned(), QUEUE.to_owned());
        let batch = AppendRequest {
            namespace: namespace.clone(),
            stream: stream.clone(),
            messages: messages.clone(),
            expect_last_id: None,
        };
        // Whoever may append nowhere is refused before the first batch.
        let answer = match streams.append(by(token, futures_util::stream::iter([batch]))).await {
            Ok(answers) => answers.into_inner().message().await,
            Err(refused) => Err(refused),
        };
        if appends {
            assert_eq!(answer.expect(token).expect("an answer").messages.len(), 1);
        } else {
            assert_eq!(refused(answer), denied, "{token}");
        }
        let read = streams.read(by(token, ReadRequest { namespace, stream, ..ReadRequest::default() })).await;
        if reads {
            let page = read.expect(token).into_inner().message().await.expect("a page");
            assert!(page.is_some_and(|page| !page.messages.is_empty()), "{token}");
        } else {
            assert_eq!(refused(read), denied, "{token}");
        }
    }
}

#[tokio::test]
async fn rollouts_take_the_scopes_of_commands() {
    let server = Guarded::start().await;
    let mut rollouts = RolloutsClient::new(server.channel().await);
    let denied = (Code::PermissionDenied, "forbidden".to_owned());
    let begin = |notify| {
        let command = NewCommand { payload: (&b"1"[..]).into(), notify, ..NewCommand::default() };
        let (command, selector) = (Some(command), Some(String::new()));
        let rollout = Some(NewRollout { command, selector, ..NewRollout::default() });
        CreateRolloutRequest { rollout, ..CreateRolloutRequest::default() }
    };
    let queue = || Some(Notify::NotifyQueue(format!("{NS}/done")));
    for (token, begins, tells, looks) in [
        ("admin", true, true, true),
        ("commander", true, false, true),
        ("reader", false, false, true),
        ("sender", false, false, false),
        ("mailer", false, false, false),
    ] {
        let listed = rollouts.list(by(token, ListRolloutsRequest::default())).await;
        assert_eq!(listed.is_ok(), looks, "{token} looks: {listed:?}");
        for (notify, may) in [(None, begins), (queue(), tells)] {
            let begun = rollouts.create(by(token, begin(notify))).await;
            if may {
                begun.expect(token);
            } else {
                assert_eq!(refused(begun), denied, "{token}");
            }
        }
    }
}

#[tokio::test]
async fn a_command_is_tried_anew_only_by_who_may_tell_its_outcome() {
    let server = Guarded::start().await;
    let headers = [("Authorization", "Bearer admin"), ("Content-Type", "application/json")];
    let http = server.site.http.address().await;
    let made = wire::ask(http, "POST", "/v1/devices", &headers, br#"{"id":"0xA"}"#).await;
    assert_eq!(made.status, 201);
    let mut devices = CommandsClient::new(server.channel().await);
    let notify = Some(Notify::NotifyQueue(format!("{NS}/done")));
    let command = NewCommand { payload: (&b"1"[..]).into(), notify, ..NewCommand::default() };
    let request = SendCommandRequest {
        device_id: "0xA".to_owned(),
        command: Some(command),
        ..SendCommandRequest::default()
    };
    let sent = devices.send(by("admin", request)).await.expect("sent").into_inner();
    let id = sent.command.expect("a command").id;
    let cancel = CancelCommandRequest { id: id.clone() };
    devices.cancel(by("commander", cancel)).await.expect("cancelled");
    let retry = || RetryCommandRequest { id: id.clone() };
    let denied = (Code::PermissionDenied, "forbidden".to_owned());
    assert_eq!(refused(devices.retry(by("commander", retry())).await), denied);
    devices.retry(by("admin", retry())).await.expect("it may tell");
}

#[tokio::test]
async fn every_refused_token_leaves_a_line_with_the_address() {
    let server = Guarded::start().await;
    let mut jobs = JobsClient::new(server.channel().await);
    for token in ["nobody", "printer"] {
        assert!(jobs.publish(by(token, publish(vec![numbered(1)]))).await.is_err());
    }
    let mut reports = ReportsClient::new(server.channel().await);
    let report = Report { device_id: "0xA\nforged".to_owned(), data: "1".into(), ..Report::default() };
    let batches = futures_util::stream::iter([SendRequest { reports: vec![report] }]);
    let mut answers = reports.send(by("sender", batches)).await.expect("it may").into_inner();
    assert_eq!(answers.message().await.expect("answered").expect("one").rejected.len(), 1);
    let log = fs::read_to_string(server.site.log_path()).expect("a log");
    let line = |words: &[&str]| log.lines().any(|line| words.iter().all(|word| line.contains(word)));
    for (what, login, code) in [
        ("refused a gRPC call", "", "unauthorized"),
        ("refused a gRPC call", "printer", "forbidden"),
        ("refused a report", "sender", "invalid_id"),
    ] {
        assert!(line(&[what, "grpc", login, code, "127.0.0.1:"]), "{what} {code}: {log}");
    }
    let once = log.lines().filter(|line| line.contains("unauthorized")).count();
    assert_eq!(once, 1, "one call, one line: {log}");
    assert!(!log.lines().any(|line| line.starts_with("forged")), "{log}");
}

#[tokio::test]
async fn a_stream_works_only_where_its_token_reaches() {
    let server = Guarded::start().await;
    let mut jobs = JobsClient::new(server.channel().await);
    let open = Open { namespace: NS.to_owned(), queues: vec![QUEUE.to_owned()], ttr: None };
    let first = WorkRequest { open: Some(open), credits: 1, ..WorkRequest::default() };
    for (token, expect) in [("printer", Code::PermissionDenied), ("reader", Code::PermissionDenied)] {
        let stream = jobs.work(by(token, futures_util::stream::iter([first.clone()]))).await;
        let heard = stream.expect("it answers").into_inner().message().await;
        assert_eq!(refused(heard).0, expect, "{token}");
    }
    let stream = jobs.work(by("mailer", futures_util::stream::iter([first]))).await;
    assert_eq!(stream.expect("it answers").into_inner().message().await.expect("no refusal"), None);
}

#[tokio::test]
async fn without_tokens_a_call_that_a_foreign_page_may_have_made_is_refused() {
    let rig = Rig::start().await;
    let foreign = (Code::PermissionDenied, "foreign_origin".to_owned());
    let endpoint = Endpoint::from_shared(format!("http://{}", rig.address())).expect("an address");
    let named = endpoint.origin("http://evil.example:8081".parse().expect("an origin"));
    let mut jobs = JobsClient::new(named.connect().await.expect("it listens"));
    assert_eq!(refused(jobs.publish(publish(vec![numbered(1)])).await), foreign);
    let mut jobs = JobsClient::new(rig.channel().await);
    let mut request = Request::new(publish(vec![numbered(1)]));
    request.metadata_mut().insert("origin", "http://evil.example".parse().expect("printable"));
    assert_eq!(refused(jobs.publish(request).await), foreign);
    assert_eq!(rig.figure(QUEUE, "ready").await, 0);
}

#[tokio::test]
async fn what_is_no_method_and_what_is_no_grpc_is_told_so() {
    let rig = Rig::start().await;
    let mut inner = tonic::client::Grpc::new(rig.channel().await);
    inner.ready().await.expect("connected");
    let codec = tonic_prost::ProstCodec::<SendRequest, SendRequest>::default();
    let path = "/fieldpost.v1.Jobs/Nothing".parse().expect("a path");
    let answer = inner.unary(Request::new(SendRequest::default()), path, codec).await;
    assert_eq!(answer.expect_err("there is none").code(), Code::Unimplemented);
}

#[tokio::test]
async fn what_is_no_message_of_a_call_is_refused_with_a_code() {
    let rig = Rig::start().await;
    let unreadable = (Code::InvalidArgument, "unreadable".to_owned());
    // Its first field is a number, where these calls have something else.
    let other = prost_types::Duration { seconds: 1, nanos: 0 };
    let mut inner = tonic::client::Grpc::new(rig.channel().await);
    inner.ready().await.expect("connected");
    let codec = tonic_prost::ProstCodec::<prost_types::Duration, PublishResponse>::default();
    let path = "/fieldpost.v1.Jobs/Publish".parse().expect("a path");
    assert_eq!(refused(inner.unary(Request::new(other), path, codec).await), unreadable);
    inner.ready().await.expect("connected");
    let codec = tonic_prost::ProstCodec::<prost_types::Duration, SendResponse>::default();
    let path = "/fieldpost.v1.Reports/Send".parse().expect("a path");
    let answer = inner.streaming(Request::new(futures_util::stream::iter([other])), path, codec).await;
    let heard = match answer {
        Ok(answer) => answer.into_inner().message().await,
        Err(refused) => Err(refused),
    };
    assert_eq!(refused(heard), unreadable);
}

#[tokio::test]
async fn over_tls_it_is_agreed_to_speak_http_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    fs::write(folder.path().join("cert.pem"), cert.pem()).expect("written");
    fs::write(folder.path().join("key.pem"), signing_key.serialize_pem()).expect("written");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let lines = format!("[tls]\ncert = \"{}\"\nkey = \"{}\"\n", file("cert.pem"), file("key.pem"));
    let server = Guarded::start_in(folder, &lines).await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.der().clone()).expect("a root");
    for (offers, expect) in [(&[&b"h2"[..], b"http/1.1"][..], Some(&b"h2"[..])), (&[], None)] {
        let mut config =
            rustls::ClientConfig::builder().with_root_certificates(roots.clone()).with_no_client_auth();
        config.alpn_protocols = offers.iter().map(|offer| offer.to_vec()).collect();
        let stream = TcpStream::connect(server.address()).await.expect("it listens");
        let name = ServerName::try_from("localhost").expect("a name");
        let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        let mut stream = connected.expect("agreed");
        assert_eq!(stream.get_ref().1.alpn_protocol(), expect);
        // The preface and an empty SETTINGS frame; the server's first frame is its SETTINGS.
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        stream.write_all(preface).await.expect("sent");
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.expect("a frame");
        assert_eq!((head[3], &head[5..]), (4, &[0, 0, 0, 0][..]));
    }
}
