//! Scripted model playback
