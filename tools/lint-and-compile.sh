#!/bin/sh
#
# In `make test LINTS=1` cargo calls this in place of the compiler, for this workspace's crates that run in the guest. It
# checks the lints of a crate, and compiles it if there is nothing to find. The compiler with lints does not optimise as well,
# so it only checks. It reads the compiled files of other crates. `cargo clippy` would check those crates again.
# Usage: lint-and-compile.sh compiler option...
set -eu

compiler=$1
shift
case " $* " in
*" --emit="*) ;;
*" -vV "* | *" --print"*) exec "$compiler" "$@" ;; # Cargo asks the compiler what it is.
*)
    echo "$0: no option --emit=..., so it is not known what is compiled: $*" >&2
    exit 1
    ;;
esac

checked=$(mktemp -d)
trap 'rm -rf "$checked"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
(
    after=
    for option; do
        shift
        case $option in
        --out-dir=*) option=--out-dir=$checked ;;
        --emit=*) option=--emit=metadata ;;
        # Without the message that the crate can be read: that comes from the compiler.
        --json=*) option=--json=diagnostic-rendered-ansi ;;
        esac
        test "$after" != --out-dir || option=$checked
        after=$option
        set -- "$@" "$option"
    done
    clippy-driver "$compiler" "$@"
)
rm -rf "$checked"
trap - EXIT
exec "$compiler" "$@"
