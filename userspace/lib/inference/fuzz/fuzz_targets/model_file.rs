//! Any bytes as a model file: opened, asked twice, listened to for some tokens. Whatever comes of it is an end in words
//! or an answer.

#![no_main]

#[path = "../../tests/hostile/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    drive::drive(file);
});
