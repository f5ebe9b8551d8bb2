//! Names of hosts in rules. No tool reaches a network yet; the rules are those for the first one that does.

use alloc::format;
use alloc::string::String;

use hashbrown::HashSet;

/// Which hosts may be reached: by exact name, or as `*.example.org` for all names below one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainRules {
    pub allow: HashSet<String>,
    /// Beats `allow`.
    pub block: HashSet<String>,
}

/// The host of an address such as `https://example.org:443/path`, in small letters.
///
/// # Errors
/// It has none, or one whose letters may pass for others.
pub fn host(url: &str) -> Result<String, String> {
    let (_, rest) = url.split_once("://").ok_or_else(|| format!("{url:?} is no address: it has no scheme"))?;
    // Clients do not agree on what a backslash is.
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    // What stands before the last @ is a name of a user, whatever it looks like.
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(address) => address.split_once(']').map(|(address, _)| address).unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | ':' | '_');
    if host.is_empty() || !host.chars().all(plain) || host.split('.').any(str::is_empty) {
        return Err(format!("{url:?} has no host that can be compared with the rules"));
    }
    Ok(host.to_ascii_lowercase())
}

impl DomainRules {
    fn has(rules: &HashSet<String>, host: &str) -> bool {
        if rules.contains(host) {
            return true;
        }
        let mut rest = host;
        while let Some((_, above)) = rest.split_once('.') {
            if rules.contains(&format!("*.{above}")) {
                return true;
            }
            rest = above;
        }
        false
    }

    /// Whether the host of an address may be reached.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, url: &str) -> Result<(), String> {
        let host = host(url)?;
        if Self::has(&self.block, &host) {
            return Err(format!("the domain {host:?} is blocked"));
        }
        if Self::has(&self.allow, &host) { Ok(()) } else { Err(format!("the domain {host:?} is not allowed")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn d18_only_allowed_domains_can_be_reached() {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let rules = DomainRules { allow: set(&["example.org", "*.example.net"]), block: set(&["bad.example.net"]) };
        for (url, why) in [
            ("https://example.org/a", ""),
            ("https://EXAMPLE.org.:443/a?b#c", ""),
            ("https://a.b.example.net", ""),
            ("https://user@example.org", ""),
            ("https://example.net", "not allowed"),
            ("https://bad.example.net", "is blocked"),
            ("https://a.example.org", "not allowed"),
            ("https://example.org.evil.com", "not allowed"),
            ("https://example.org@evil.com/", "\"evil.com\" is not allowed"),
            ("https://evil.com/@example.org", "\"evil.com\" is not allowed"),
            ("https://evil.com\\@example.org", "\"evil.com\" is not allowed"),
            ("https://evil.com?@example.org", "\"evil.com\" is not allowed"),
            ("https://evilexample.org", "not allowed"),
            ("https://ex\u{430}mple.org", "has no host"),
            ("https://example\u{3002}org", "has no host"),
            ("https://example..org", "has no host"),
            ("https://[::1]:80/", "\"::1\" is not allowed"),
            ("https://", "has no host"),
            ("example.org", "no scheme"),
        ] {
            match rules.check(url) {
                Ok(()) => assert_eq!(why, "", "{url}"),
                Err(found) => assert!(!why.is_empty() && found.contains(why), "{url}: {found}"),
            }
        }
    }

    proptest! {
        #[test]
        fn a_host_is_plain_or_none(url in "\\PC{0,30}", tail in "[a-z@/.:?#\\\\]{0,20}") {
            for url in [url, format!("https://{tail}")] {
                if let Ok(host) = host(&url) {
                    prop_assert!(!host.is_empty() && host.is_ascii());
                    prop_assert!(!host.contains(['/', '@', '?', '#', '\\']));
                }
            }
        }
    }
}
