//! Whether a request asks for several things, as far as its words tell.

/// Words that join a further wish to one, or say that there are several.
const SEVERAL: [&str; 14] = [
    "and",
    "then",
    "also",
    "too",
    "both",
    "plus",
    "after",
    "afterwards",
    "next",
    "well",
    "each",
    "first",
    "second",
    "two",
];
/// Marks that do.
const MARKS: [char; 4] = [';', '&', '\n', '+'];

/// How much less likely a further call is made after a result, in natural logarithms, if the request asks for one thing by
/// its words. A small model calls again where nothing is left to do: it takes the story around a wish for another one. The
/// value is the one that did best in sets of requests whose answers were read (docs/built-in-model-card.md).
const OF_ONE: f32 = 4.0;

/// What is added to the logit of a further call.
pub(crate) fn call_again(request: &str) -> f32 {
    let mut words = request.split(|letter: char| !letter.is_alphanumeric());
    let is_several =
        request.contains(MARKS) || words.any(|word| SEVERAL.iter().any(|one| one.eq_ignore_ascii_case(word)));
    if is_several { 0.0 } else { -OF_ONE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_several_things_are_told_by_their_words() {
        for several in
            ["read a.txt and delete it", "stop ahci; list files", "Then stop it", "do 1) this & that", "both logs"]
        {
            assert_eq!(call_again(several), 0.0, "{several}");
        }
        for one in ["read a.txt", "show android.txt to my band", ""] {
            assert_eq!(call_again(one), -OF_ONE, "{one}");
        }
    }
}
