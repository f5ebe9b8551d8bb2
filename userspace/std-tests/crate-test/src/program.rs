//! Crates for a program's own surface: command line, errors, logs, screen, network stack.

use std::sync::{Arc, Mutex};

#[test]
fn anyhow() {
    use anyhow::Context;
    let error = std::fs::read("/nowhere/x").context("reading the plan").unwrap_err();
    assert!(format!("{error:#}").starts_with("reading the plan: "), "{error:#}");
    assert_eq!(error.chain().count(), 2);
}

#[test]
fn clap() {
    use clap::Parser;
    #[derive(Debug, Parser)]
    struct Arguments {
        #[arg(long, default_value_t = 1)]
        count: u32,
        names: Vec<String>,
    }
    let arguments = Arguments::try_parse_from(["greet", "--count", "3", "Ada", "Grace"]).unwrap();
    assert_eq!((arguments.count, arguments.names.len()), (3, 2));
    let error = Arguments::try_parse_from(["greet", "--cuont", "3"]).unwrap_err().to_string();
    assert!(error.contains("a similar argument exists: '--count'"), "{error}");
}

/// Where log output goes.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[test]
fn log() {
    // The crate `env_logger` as the backend of the crate `log`.
    let lines = Lines::default();
    let target = env_logger::Target::Pipe(Box::new(lines.clone()));
    env_logger::Builder::new().parse_filters("warn").target(target).init();
    log::info!("not this");
    log::warn!("disk {} is slow", 3);
    let text = lines.text();
    assert!(text.contains("WARN") && text.ends_with("disk 3 is slow\n") && !text.contains("not this"), "{text}");
}

#[test]
fn ratatui() {
    use ratatui::widgets::{Block, Paragraph};
    let mut terminal = ratatui::Terminal::new(ratatui::backend::TestBackend::new(12, 3)).unwrap();
    let plant = Paragraph::new("watered").block(Block::bordered().title("fern"));
    terminal.draw(|frame| frame.render_widget(plant, frame.area())).unwrap();
    terminal.backend().assert_buffer_lines(["┌fern──────┐", "│watered   │", "└──────────┘"]);
}

#[test]
fn smoltcp() {
    use smoltcp::iface::{Config, Interface, SocketSet};
    use smoltcp::phy::{Loopback, Medium};
    use smoltcp::socket::tcp;
    use smoltcp::time::Instant;
    use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
    let mut device = Loopback::new(Medium::Ip);
    let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut device, Instant::from_millis(0));
    let here = IpAddress::v4(127, 0, 0, 1);
    interface.update_ip_addrs(|list| list.push(IpCidr::new(here, 8)).unwrap());
    let socket = || tcp::Socket::new(tcp::SocketBuffer::new(vec![0; 1024]), tcp::SocketBuffer::new(vec![0; 1024]));
    let mut sockets = SocketSet::new(Vec::new());
    let (server, client) = (sockets.add(socket()), sockets.add(socket()));
    sockets.get_mut::<tcp::Socket>(server).listen(80_u16).unwrap();
    sockets.get_mut::<tcp::Socket>(client).connect(interface.context(), (here, 80), 50_000_u16).unwrap();
    let (mut sent, mut heard) = (false, Vec::new());
    for millisecond in 0..200 {
        interface.poll(Instant::from_millis(millisecond), &mut device, &mut sockets);
        let client = sockets.get_mut::<tcp::Socket>(client);
        if client.may_send() && !sent {
            client.send_slice(b"over a loop").unwrap();
            sent = true;
        }
        let server = sockets.get_mut::<tcp::Socket>(server);
        if server.can_recv() {
            server.recv(|data| (data.len(), heard.extend_from_slice(data))).unwrap();
        }
    }
    assert_eq!(heard, b"over a loop");
}

#[test]
fn thiserror() {
    use std::error::Error;
    #[derive(Debug, thiserror::Error)]
    #[error("plant {name} cannot be watered")]
    struct Dry {
        name: &'static str,
        source: std::num::ParseIntError,
    }
    let error = Dry { name: "fern", source: "x".parse::<u32>().unwrap_err() };
    assert_eq!(error.to_string(), "plant fern cannot be watered");
    assert!(error.source().is_some());
}

#[test]
fn tracing() {
    // The crate `tracing-subscriber` as the backend of the crate `tracing`.
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).with_target(false).finish();
    tracing::subscriber::with_default(subscriber, || {
        let _span = tracing::info_span!("water", plant = "fern").entered();
        tracing::warn!(litres = 2, "too much");
    });
    assert!(lines.text().ends_with("WARN water{plant=\"fern\"}: too much litres=2\n"), "{}", lines.text());
}
