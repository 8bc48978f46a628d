#!/bin/sh
# Sets this checkout up in .venv, on Debian and Ubuntu from nothing. Called by make; safe to call again and again.
#
#   packaging/setup.sh run    what the program needs
#   packaging/setup.sh dev    the same, and what the tests need
#
# A stamp in .venv names the lock files it was made from, so a second call returns at once. PYTHON=... picks the
# interpreter. Root is asked for only when system packages are missing, and they are named first.
set -eu
cd "$(dirname "$0")/.."

kind=${1:-run}
case $kind in
    run | dev) ;;
    *) echo "setup.sh: '$kind' is neither run nor dev" >&2; exit 2 ;;
esac

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }

# --- Is there anything to do? -------------------------------------------------------------------------------------

# The folder counts too: the scripts in a virtual environment hold its absolute path.
state_of() { { pwd; cat "$@"; } | cksum | cut -d' ' -f1; }
run_stamp=.venv/.stamp-run-$(state_of pyproject.toml packaging/setup.sh packaging/requirements.lock)
dev_stamp=.venv/.stamp-dev-$(state_of pyproject.toml packaging/setup.sh packaging/requirements.lock packaging/requirements-dev.lock)
unfinished=.venv/.unfinished
libraries_stamp=.venv/.stamp-libraries-$kind

ready() { [ -x .venv/bin/python ] && [ ! -e $unfinished ] && [ -e "$1" ]; }
all_ready() {
    ready "$run_stamp" && [ -e "$libraries_stamp" ] && { [ "$kind" = run ] || ready "$dev_stamp"; }
}
all_ready && exit 0

# One setup at a time: the lock is held on the folder itself and ends with this process.
if command -v flock >/dev/null; then
    exec 9<.
    flock -n 9 || { say "another setup is at work here; waiting for it"; flock 9; }
    all_ready && exit 0
fi

# --- System packages ------------------------------------------------------------------------------------------------

# Installs Debian packages, as root or through sudo. Status 1 where neither is to be had.
install_packages() {
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" = 0 ]; then as_root=
    elif command -v sudo >/dev/null && [ -t 0 ]; then as_root=sudo
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then as_root='sudo -n'
    else return 1
    fi
    say "installing system packages${as_root:+ with sudo}: $*"
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "$@" \
                </dev/null >/dev/null
}

# True where apt knows a package of this very name, or can install it after an update.
known() { apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'; }

# --- Python ---------------------------------------------------------------------------------------------------------

usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14}; do
        if usable "$candidate"; then python=$candidate; return 0; fi
    done
    return 1
}

make_venv() {
    if ! find_python; then
        [ -z "${PYTHON:-}" ] || die "PYTHON=$PYTHON is no Python 3.11 to 3.14 with venv"
        command -v apt-get >/dev/null || die "needs Python 3.11 or newer with venv; none was found"
        # An image fresh from the factory knows no package until its first update.
        known python3 || [ "$(id -u)" != 0 ] || apt-get update -qq
        for version in python3.13 python3.12 python3.11; do
            if known "$version-venv"; then
                install_packages "$version" "$version-venv" ca-certificates ||
                    die "needs Python 3.11 or newer with venv; install $version and $version-venv, then call again"
                break
            fi
        done
        find_python || die "needs Python 3.11 or newer with venv, and this system's packages have none"
    fi
    say "making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
}

install_python_packages() {
    touch $unfinished
    say "installing packages for '$1' (the first time takes a minute or two)"
    .venv/bin/python -m pip install --disable-pip-version-check --no-input --quiet -r "$2"
    # No dependencies here: the lock names them all.
    .venv/bin/python -m pip install --disable-pip-version-check --no-input --quiet --no-deps -e .
    rm -f .venv/.stamp-"$1"-*
    touch "$3"
    rm $unfinished
}

# An install that was cut short may have left half a package behind: start over, pip's cache makes it quick.
if [ -e $unfinished ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then make_venv; fi
ready "$run_stamp" || install_python_packages run packaging/requirements.lock "$run_stamp"
if [ "$kind" = dev ] && ! ready "$dev_stamp"; then
    install_python_packages dev packaging/requirements-dev.lock "$dev_stamp"
fi

# --- What Qt loads from the system ------------------------------------------------------------------------------------

missing_packages() {
    .venv/bin/python packaging/system_packages.py "$kind"
}

missing=$(missing_packages)
if [ -n "$missing" ]; then
    say "Qt needs system packages that are missing here: $missing"
    # shellcheck disable=SC2086  # one word is one package
    install_packages $missing || true
    missing=$(missing_packages)
fi
if [ -n "$missing" ]; then
    say "could not install them; as root: apt-get install $missing"
    [ "$kind" = run ] || die "the tests draw windows and cannot do without"
    say "until then the command line works and the window does not"
else
    touch "$libraries_stamp"
fi
