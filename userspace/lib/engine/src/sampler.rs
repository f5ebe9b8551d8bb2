//! Choosing the next token by its logits.

/// The token with the largest logit, of equals the first. What is not a number is never chosen,
/// except where nothing is one: then the first token is.
pub fn greedy(logits: &[f32]) -> u32 {
    let mut best = (0u32, f32::NEG_INFINITY);
    for (id, logit) in (0u32..).zip(logits) {
        if *logit > best.1 {
            best = (id, *logit);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::greedy;

    #[test]
    fn the_first_of_the_largest_is_chosen() {
        assert_eq!(greedy(&[1.0, 3.0, f32::NAN, 3.0]), 1);
    }

    #[test]
    fn nothing_that_is_no_number_is_chosen() {
        assert_eq!(greedy(&[f32::NAN, f32::NEG_INFINITY, -7.0]), 2);
        assert_eq!(greedy(&[f32::NAN]), 0);
    }
}
