//! TLS: what a client sees of the certificate, and what becomes of one that does not speak it.

use std::sync::Arc;
use std::time::Duration;

use gateway::mqtt::MqttLimits;
use net::listen::TlsSource;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::PATIENCE;
use crate::raw_client::Version::V5;
use crate::raw_client::{Connect, RawClient, lock, puback};
use crate::rig::{LOCKS, Rig};

pub(crate) fn certificate() -> (CertificateDer<'static>, Arc<ServerConfig>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![cert.der().clone()], key).expect("a right key");
    (cert.der().clone(), Arc::new(config))
}

async fn connect(rig: &Rig, trusted: &CertificateDer<'static>) -> std::io::Result<TlsStream<TcpStream>> {
    agree(TcpStream::connect(rig.mqtt).await?, trusted).await
}

/// Agrees on TLS as a client that trusts this certificate only.
pub(crate) async fn agree(
    stream: TcpStream,
    trusted: &CertificateDer<'static>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

async fn exchange(stream: &mut TlsStream<TcpStream>, send: &[u8], receive_bytes: usize) -> Vec<u8> {
    stream.write_all(send).await.expect("an open connection");
    let mut received = vec![0; receive_bytes];
    timeout(PATIENCE, stream.read_exact(&mut received)).await.expect("in time").expect("all of it");
    received
}

#[tokio::test]
async fn reports_come_over_tls_and_a_new_certificate_is_used_at_once() {
    let (first, config) = certificate();
    let source = TlsSource::new(arc_swap::ArcSwap::new(config));
    let for_listener = Arc::clone(&source);
    let rig = Rig::listening(MqttLimits::default(), |listener| listener.with_tls(for_listener)).await;
    let mut stream = connect(&rig, &first).await.expect("trusted");
    let connack = exchange(&mut stream, &Connect::new(V5).bytes(), 2).await;
    assert_eq!(connack[0], 0x20);
    let rest = usize::from(connack[1]);
    exchange(&mut stream, b"", rest).await;
    // More than one record of TLS.
    let reports: Vec<u8> = (1..=2_000).flat_map(|id| lock(V5, id, LOCKS[0], (id % 2) as u8)).collect();
    let acks: Vec<u8> = (1..=1_000).flat_map(puback).collect();
    let (one, other) = reports.split_at(reports.len() / 2);
    assert_eq!(exchange(&mut stream, one, acks.len()).await, acks);
    exchange(&mut stream, other, acks.len()).await;

    let (second, config) = certificate();
    source.store(config);
    connect(&rig, &second).await.expect("the new certificate");
    connect(&rig, &first).await.expect_err("the old certificate is gone");
    assert_eq!(exchange(&mut stream, &lock(V5, 1, LOCKS[0], 1), 4).await, puback(1), "who is in stays in");
    // Its end is told over TLS too.
    stream.write_all(b"\xe0\0").await.expect("an open connection");
    assert_eq!(stream.read(&mut [0]).await.expect("a closed connection, not a broken one"), 0);
}

#[tokio::test]
async fn a_connection_that_does_not_speak_tls_is_closed() {
    let source = TlsSource::new(arc_swap::ArcSwap::new(certificate().1));
    let limits = MqttLimits { connect_timeout: Duration::from_secs(5), ..MqttLimits::default() };
    let rig = Rig::listening(limits, |listener| listener.with_tls(source)).await;
    let mut plain = RawClient::open(rig.mqtt, V5).await;
    plain.send(&Connect::new(V5).bytes()).await;
    plain.rest().await;
    rig.figure_becomes("fieldpost_mqtt_connects_total{result=\"tls_failed\"}", 1).await;
    let mut silent = RawClient::open(rig.mqtt, V5).await;
    assert_eq!(silent.rest().await, b"");
    rig.figure_becomes("fieldpost_mqtt_connects_total{result=\"timeout\"}", 1).await;
}
