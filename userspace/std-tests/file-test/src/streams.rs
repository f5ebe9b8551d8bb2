//! Standard streams, pipes and the existing part of a network.

use std::io::{ErrorKind, IoSlice, IoSliceMut, IsTerminal, Read, Write, pipe, stdin, stdout};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::thread;

use crate::{Outcome, Test, check, fails, told};

pub const TESTS: &[(&str, Test)] = &[
    ("pipes carry bytes", pipes_carry_bytes),
    ("a second buffer does not wait", a_second_buffer_does_not_wait),
    ("pipes hold up who is faster", pipes_hold_up_who_is_faster),
    ("a pipe without a reader is broken", a_pipe_without_a_reader_is_broken),
    ("standard streams are there", standard_streams_are_there),
    ("there is no network without a grant", there_is_no_network_without_a_grant),
];

fn pipes_carry_bytes(_: &Path) -> Outcome {
    let (mut reader, mut writer) = pipe().map_err(told("making"))?;
    writer.write_all(b"one ").map_err(told("writing"))?;
    let mut other = writer.try_clone().map_err(told("cloning"))?;
    drop(writer);
    let thread = thread::spawn(move || other.write_all(b"two"));
    let mut text = String::new();
    reader.read_to_string(&mut text).map_err(told("reading"))?;
    thread.join().map_err(|_| "a thread panicked".to_owned())?.map_err(told("writing in a thread"))?;
    check(text == "one two", "other bytes came")
}

fn a_second_buffer_does_not_wait(_: &Path) -> Outcome {
    let (mut reader, mut writer) = pipe().map_err(told("making"))?;
    let pieces = [IoSlice::new(b"fo"), IoSlice::new(b"ur")];
    check(writer.write_vectored(&pieces).map_err(told("writing"))? == 4, "not all was written")?;
    let (mut one, mut two) = ([0; 4], [0; 4]);
    let count = reader.read_vectored(&mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)]);
    check(count.map_err(told("reading"))? == 4 && &one == b"four", "other bytes came")
}

fn pipes_hold_up_who_is_faster(_: &Path) -> Outcome {
    let (mut reader, mut writer) = pipe().map_err(told("making"))?;
    let sent: Vec<u8> = (0..500_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let expected = sent.clone();
    let thread = thread::spawn(move || writer.write_all(&sent));
    let mut received = Vec::new();
    reader.read_to_end(&mut received).map_err(told("reading"))?;
    thread.join().map_err(|_| "a thread panicked".to_owned())?.map_err(told("writing in a thread"))?;
    check(received == expected, "other bytes came")
}

fn a_pipe_without_a_reader_is_broken(_: &Path) -> Outcome {
    let (reader, mut writer) = pipe().map_err(told("making"))?;
    drop(reader);
    fails(writer.write(b"x"), ErrorKind::BrokenPipe, "writing to nobody")
}

fn standard_streams_are_there(_: &Path) -> Outcome {
    if cfg!(capos_guest) {
        let mut text = String::new();
        check(stdin().read_to_string(&mut text).map_err(told("reading"))? == 0, "standard input has bytes")?;
        check(!stdin().is_terminal() && !stdout().is_terminal(), "a stream is a terminal")?;
    }
    stdout().flush().map_err(told("flushing"))
}

fn there_is_no_network_without_a_grant(_: &Path) -> Outcome {
    if !cfg!(capos_guest) {
        return Ok(());
    }
    let refused = TcpStream::connect(("10.0.0.1", 80));
    let text = refused.as_ref().err().map(ToString::to_string).unwrap_or_default();
    fails(refused, ErrorKind::NetworkDown, "connecting")?;
    check(text.contains("no network was granted"), &text)?;
    fails(UdpSocket::bind("0.0.0.0:0"), ErrorKind::NetworkDown, "listening")?;
    let text = ("example.org", 80).to_socket_addrs().err().map(|error| error.to_string()).unwrap_or_default();
    check(text.contains("no network was granted"), &text)
}
