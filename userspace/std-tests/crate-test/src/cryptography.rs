//! Digests, signatures, and TLS between two ends in one process.

use std::io::{Read, Write};
use std::ops::DerefMut;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ConnectionCommon, RootCertStore, ServerConfig, ServerConnection};

#[test]
fn ed25519_compact() {
    let pair = ed25519_compact::KeyPair::generate();
    let signature = pair.sk.sign(b"message", None);
    assert!(pair.pk.verify(b"message", &signature).is_ok());
    assert!(pair.pk.verify(b"massage", &signature).is_err());
}

#[test]
fn sha2() {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(b"abc");
    assert_eq!(digest[..4], [0xba, 0x78, 0x16, 0xbf]);
}

/// Passes one end's output to the other.
fn carry<From, To>(
    from: &mut impl DerefMut<Target = ConnectionCommon<From>>,
    to: &mut impl DerefMut<Target = ConnectionCommon<To>>,
) {
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).unwrap();
    }
    let mut rest = &wire[..];
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        to.process_new_packets().unwrap();
    }
}

#[test]
fn rustls() {
    let provider = Arc::new(rustls_rustcrypto::provider());
    // A key of these tests alone, and certificates that an authority of its own has signed.
    let authority = CertificateDer::from(&include_bytes!("../keys/authority.der")[..]);
    let certificate = CertificateDer::from(&include_bytes!("../keys/server.der")[..]);
    let key = PrivatePkcs8KeyDer::from(&include_bytes!("../keys/server-key.der")[..]);
    let mut roots = RootCertStore::empty();
    roots.add(authority).unwrap();
    let client = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let client = client.with_root_certificates(roots).with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let server = server.with_no_client_auth().with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(key)).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), ServerName::try_from("server.test").unwrap()).unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();

    client.writer().write_all(b"hello").unwrap();
    let mut heard = [0; 5];
    for _ in 0..8 {
        carry(&mut client, &mut server);
        if server.reader().read(&mut heard).is_ok_and(|count| count == heard.len()) {
            break;
        }
        carry(&mut server, &mut client);
    }
    assert_eq!(&heard, b"hello");
    assert_eq!(server.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
}
