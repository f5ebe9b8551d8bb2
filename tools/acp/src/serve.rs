//! Runs the bridge between an editor and a machine.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use crate::bridge::{Bridge, End, Login};
use crate::hub::{Hub, Input, Side};
use crate::wire;
use capos_client_protocol::limits;

/// How long what is left for a side may take to be written at the end.
const FLUSH: Duration = Duration::from_secs(2);

/// Translates until one side is gone. What is to be logged goes to `log`, a line each.
pub fn serve(
    editor: (impl Read + Send + 'static, impl Write + Send + 'static),
    machine: (impl Read + Send + 'static, impl Write + Send + 'static),
    login: Login,
    mut log: impl FnMut(&str),
) -> End {
    let hub = Hub::default();
    let (from_editor, to_editor) = editor;
    let (from_machine, to_machine) = machine;
    // The threads that read end with the process, or when their side closes.
    let (one, two, three, four) = (hub.clone(), hub.clone(), hub.clone(), hub.clone());
    thread::spawn(move || one.read(Side::Editor, from_editor, wire::LINE));
    thread::spawn(move || two.read(Side::Machine, from_machine, limits::LINE));
    thread::spawn(move || three.write(Side::Editor, to_editor));
    thread::spawn(move || four.write(Side::Machine, to_machine));
    let began = Instant::now();
    let mut bridge = Bridge::new(login, Duration::ZERO);
    loop {
        let output = bridge.output();
        output.log.iter().for_each(|line| log(line));
        hub.send(Side::Editor, output.editor);
        hub.send(Side::Machine, output.machine);
        if let Some(end) = output.end {
            hub.close(Side::Machine, FLUSH);
            hub.close(Side::Editor, FLUSH);
            return end;
        }
        let limit = bridge.deadline().map(|deadline| deadline.saturating_sub(began.elapsed()));
        let input = hub.next(limit);
        let now = began.elapsed();
        match input {
            Input::Line(Side::Editor, line) => bridge.editor_line(&line, now),
            Input::Line(Side::Machine, line) => bridge.machine_line(&line, now),
            Input::End(Side::Editor) => bridge.editor_end(now),
            Input::End(Side::Machine) => bridge.machine_end(now),
            Input::Time => {}
        }
        bridge.tick(now);
    }
}
