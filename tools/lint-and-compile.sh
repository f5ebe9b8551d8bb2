#!/bin/sh
# Cargo calls this in place of the compiler for the crates of this workspace that run in the guest, in `make test LINTS=1`:
# it checks the lints of a crate, and compiles it if there is nothing to find. The compiler with lints does not optimise as
# well, so it only checks. It reads other crates as they were compiled, which `cargo clippy` would check once more.
# Usage: lint-and-compile.sh compiler option...
set -eu

compiler=$1
shift
case " $* " in
*" --emit="*) ;;
*) exec "$compiler" "$@" ;; # Cargo asks the compiler what it is.
esac

checked=$(mktemp -d)
trap 'rm -rf "$checked"' EXIT
(
    before=
    for option; do
        shift
        case $before$option in
        --out-dir*) test -z "$before" || option=$checked ;;
        --emit=*) option=--emit=metadata ;;
        # Without the message that the crate can be read: that comes from the compiler.
        --json=*) option=--json=diagnostic-rendered-ansi ;;
        esac
        before=
        test "$option" != --out-dir || before=--out-dir
        set -- "$@" "$option"
    done
    clippy-driver "$compiler" "$@"
)
rm -rf "$checked"
trap - EXIT
exec "$compiler" "$@"
