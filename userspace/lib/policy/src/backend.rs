//! Which backends a machine may run, for every caller.

use alloc::format;
use alloc::string::{String, ToString};

use capos_schema::models::BackendPolicy;

use crate::is_remote;

/// Whether a policy can be enforced.
///
/// # Errors
/// The reason why not.
pub fn check_backend_policy(policy: &BackendPolicy) -> Result<(), String> {
    if policy.max_tokens_per_call == 0 {
        return Err(
            "maxTokensPerCall is 0, so no model could answer; allowLocal and allowRemote switch models off".to_string()
        );
    }
    Ok(())
}

/// Whether the policy lets a model with that backend (`ModelInfo.backend`) be opened.
///
/// # Errors
/// The reason why not.
pub fn may_open(policy: &BackendPolicy, backend: &str) -> Result<(), String> {
    let (allowed, kind) =
        if is_remote(backend) { (policy.allow_remote, "remote") } else { (policy.allow_local, "local") };
    if allowed {
        Ok(())
    } else {
        Err(format!("the backend policy permits no {kind} models, and {backend} is a {kind} backend"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b06_local_and_remote_backends_are_allowed_apart() {
        let policy =
            |allow_local, allow_remote| BackendPolicy { allow_local, allow_remote, ..BackendPolicy::default() };
        for (local, remote) in [(false, false), (false, true), (true, false), (true, true)] {
            let policy = policy(local, remote);
            assert_eq!(may_open(&policy, "local-scripted").is_ok(), local, "{policy:?}");
            assert_eq!(may_open(&policy, "remote-openai").is_ok(), remote, "{policy:?}");
            assert_eq!(may_open(&policy, "something new").is_ok(), remote, "{policy:?}: unknown counts as remote");
        }
        let refused = may_open(&BackendPolicy::default(), "remote-openai").unwrap_err();
        assert!(refused.contains("permits no remote models"), "{refused}");
    }

    #[test]
    fn b06_a_policy_lets_models_say_something() {
        assert!(check_backend_policy(&BackendPolicy::default()).is_ok());
        let silent = BackendPolicy { max_tokens_per_call: 0, ..BackendPolicy::default() };
        assert!(check_backend_policy(&silent).unwrap_err().contains("maxTokensPerCall"));
    }
}
