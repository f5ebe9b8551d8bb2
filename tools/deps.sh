#!/bin/sh
# Installs what the build needs from Debian, asking nothing; elsewhere says exactly what to install. With --tests installs what
# only tests need.
set -eu

packages="binutils capnproto gcc grub-common grub-efi-amd64-bin grub-pc-bin libc6-dev lld make mtools ovmf
    python3 python3-venv qemu-system-x86 util-linux xorriso"
programs="objcopy capnp cc grub-mkimage|grub2-mkimage ld.lld mtype python3 qemu-system-x86_64 setpriv xorriso"

have() {
    command -v "$1" >/dev/null 2>&1
}

# Installs the ACP client that tests drive `capos acp` with, once for each version. Without it those tests do not run, and
# say so: nothing else needs it.
acp_client() {
    cd "$(dirname "$0")/.." || return 0
    wanted=tools/acp/client/requirements.txt
    built=target/acp-client
    cmp -s "$wanted" "$built/requirements.txt" && return 0
    have python3 || return 0
    echo "Installing the ACP client of the tests into $built."
    rm -rf "$built"
    if python3 -m venv "$built" >/dev/null 2>&1 &&
        "$built/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted" >"$built/log" 2>&1; then
        cp "$wanted" "$built/requirements.txt"
    else
        echo "That failed ($built/log), so the tests with it will not run. Remove $built and try again." >&2
        # Not tried again at each build.
        mkdir -p "$built" && rm -rf "$built/bin" && cp "$wanted" "$built/requirements.txt"
    fi
}

if [ "${1:-}" = --tests ]; then
    acp_client
    exit 0
fi

# True when the active compiler, or Debian's, can build the kernel.
builds_kernel() {
    library=$(rustc --print target-libdir --target x86_64-unknown-none 2>/dev/null) &&
        ls "$library"/libcore-*.rlib >/dev/null 2>&1 && return 0
    [ -e "$(/usr/bin/rustc --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library/core/src/lib.rs" ]
}

# True when there is a compiler: rustup installs the pinned one by itself.
need_debian_rust() {
    have cargo && have rustc || return 0
    builds_kernel && return 1
    if have rustup && timeout 120 rustup target add x86_64-unknown-none >/dev/null 2>&1; then
        return 1
    fi
    return 0
}

if ! have apt-get; then
    missing=
    for choice in $programs; do
        found=
        for name in $(echo "$choice" | tr '|' ' '); do
            have "$name" && found=yes
        done
        [ -n "$found" ] || missing="$missing ${choice%%|*}"
    done
    if need_debian_rust; then
        missing="$missing rust(https://rustup.rs,then:rustup-target-add-x86_64-unknown-none)"
    fi
    [ -d /usr/lib/grub/i386-pc ] || [ -d /usr/lib/grub2/i386-pc ] || [ -n "${LIMINE_DIR:-}" ] ||
        missing="$missing grub-for-i386-pc"
    [ -d /usr/lib/grub/x86_64-efi ] || [ -d /usr/lib/grub2/x86_64-efi ] || [ -n "${LIMINE_DIR:-}" ] ||
        missing="$missing grub-for-x86_64-efi"
    if [ -n "$missing" ]; then
        {
            echo "This system has no apt-get. Install these programs with its own package manager, then try again:"
            for name in $missing; do
                echo "    $name"
            done
            echo "On Fedora: dnf install binutils capnproto gcc grub2-tools grub2-pc-modules grub2-efi-x64-modules lld \\"
            echo "    make mtools edk2-ovmf python3 qemu-system-x86 util-linux xorriso"
            echo "On Arch: pacman -S --needed base-devel capnproto grub lld mtools edk2-ovmf python qemu-system-x86 libisoburn"
        } >&2
        exit 1
    fi
    exit 0
fi

if need_debian_rust; then
    packages="$packages cargo-web rustc-web rust-web-src"
fi
# shellcheck disable=SC2086 # one word per package
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $packages 2>/dev/null || true)
missing=
for package in $packages; do
    echo "$installed" | grep -qx "$package installed" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    if have sudo && sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        echo "These packages are missing, and installing them needs root. Run this, then try again:" >&2
        echo "    sudo apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
fi
echo "Installing:$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends $missing >/dev/null
