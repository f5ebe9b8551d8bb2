@0xd3f1a0c5b2e94708;
# The tutorial's service.

interface Greeter {
  # Greets.
  greet @0 (name :Text) -> (greeting :Text);
  # Makes a greeting for somebody.
}
