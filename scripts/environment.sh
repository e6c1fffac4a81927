# shellcheck shell=bash
# Sourced by scripts/run, scripts/test and scripts/docs: makes .venv, or reuses it. Needs bash 3.2 and a Python 3.11 to 3.13, nothing else.
#
# .venv/jboost-stamp is removed before anything changes and written last, so an environment without one is half made and is made anew.
# Its lines: the Python and the place it was made for (another one: made anew), the hash of pyproject.toml (another one: installed again)
# and the extras (more are installed when asked for, none is ever taken away).
# JBOOST_CUDA=12 or 13 adds the CUDA wheels. Unset, .venv keeps what it has.

unset CDPATH PYTHONHOME PYTHONPATH
repo=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$repo/.venv
stamp=$venv/jboost-stamp

# JAX's small factorisations on the CPU go through SciPy's OpenBLAS, whose idle threads spin: where cores are shared that costs ten times the seconds.
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}"

say() { printf 'jboost: %s\n' "$*" >&2; }

has_word() { case " $1 " in *" $2 "*) return 0 ;; *) return 1 ;; esac; }

# Prints what the first two lines of the stamp must be; fails where .venv has no Python that works.
identity() {
    "$venv/bin/python" -I -c '
import hashlib, platform, sys
repo = sys.argv[1]
print(platform.python_version(), repo)
print(hashlib.sha256(open(repo + "/pyproject.toml", "rb").read()).hexdigest())
' "$repo" 2>/dev/null
}

# read_stamp: sets place, digest and extras, all empty where there is no stamp.
read_stamp() {
    place='' digest='' extras=''
    if [ -f "$stamp" ]; then { read -r place && read -r digest && read -r extras; } <"$stamp" || true; fi
}

# covers EXTRAS WORD: test brings cli along (pyproject.toml says so).
covers() { has_word "$1" "$2" || { [ "$2" = cli ] && has_word "$1" test; }; }

# is_ready WORDS: does .venv hold these extras, for this place and this pyproject.toml?
is_ready() {
    local word
    read_stamp
    [ -n "$extras" ] && [ "$(identity)" = "$place"$'\n'"$digest" ] || return 1
    for word in $1; do covers "$extras" "$word" || return 1; done
}

# pythons: prints "version path" of every Python 3.11 to 3.13 on PATH that runs. A shim may exist and fail, hence the trial and all of PATH.
pythons() {
    local name path version
    for name in python3.11 python3.12 python3.13 python3 python; do
        type -aP "$name" | while read -r path; do
            version=$("$path" -I -c '
import os, platform, sys
if not (3, 11) <= sys.version_info[:2] <= (3, 13) or os.path.realpath(sys.prefix) == os.path.realpath(sys.argv[1]):
    sys.exit(1)  # out of range, or the very environment that is to be replaced
print(platform.python_version())
' "$venv" 2>/dev/null </dev/null) && printf '%s %s\n' "$version" "$path"
        done
    done
    return 0
}

# Only making an environment shows that a Python can: Debian and Ubuntu ship it without ensurepip.
make_venv() {
    local found version path first=''
    found=$(pythons)
    while read -r version path; do
        [ -n "$path" ] || continue
        say "making .venv with Python $version ($path)"
        if "$path" -I -m venv --clear "$venv" >/dev/null 2>&1 </dev/null && "$venv/bin/python" -I -m pip --version >/dev/null 2>&1; then
            return 0
        fi
        say "$path cannot make a virtual environment"
        first=${first:-$(printf '%s' "$version" | cut -d. -f1,2)}
    done <<<"$found"
    if [ -n "$first" ]; then
        say "no Python here can make a virtual environment; install what it lacks, e.g. apt install python$first-venv"
    else
        say "no Python 3.11, 3.12 or 3.13 found; install one, e.g. apt install python3.11 python3.11-venv (or dnf install python3.12, brew install python@3.12)"
    fi
    exit 2
}

# refuse_borrowed: a .venv that is a link to the environment of another checkout would be cleared there.
refuse_borrowed() {
    read_stamp
    local owner=${place#* }
    if [ -L "$venv" ] && [ -n "$owner" ] && [ "$owner" != "$repo" ]; then
        say ".venv is a link to the environment of $owner, which this command would change: remove the link"
        exit 2
    fi
}

# make_ready WORDS: called under the lock.
make_ready() {
    local now wanted=$1 word list
    is_ready "$wanted" && return 0
    refuse_borrowed
    now=$(identity) || now=''
    rm -f "$stamp"
    if [ -z "$extras" ] || [ "${now%%$'\n'*}" != "$place" ] ||
        { has_word "$extras" cuda12 && has_word "$wanted" cuda13; } || { has_word "$extras" cuda13 && has_word "$wanted" cuda12; }; then
        make_venv
        extras=''
    fi
    for word in $wanted; do covers "$extras" "$word" || extras="${extras:+$extras }$word"; done
    list=${extras// /,}
    say "installing jboost[$list] and its dependencies into .venv"
    (cd -- "$repo" && "$venv/bin/python" -m pip --quiet --disable-pip-version-check --require-virtualenv install --editable ".[$list]" </dev/null) || {
        say "pip could not install jboost[$list]: its message is above; run the command again to start afresh"
        exit 1
    }
    if ! { identity && printf '%s\n' "$extras"; } >"$stamp.new" || ! mv "$stamp.new" "$stamp"; then
        say "the Python of .venv stopped working; run the command again to start afresh"
        exit 1
    fi
}

# lock: descriptor 9 holds it until it is closed. Without flock(1), as on macOS, Python asks for the same lock on the same descriptor.
lock() {
    local python
    exec 9>"$repo/.venv.lock"
    if command -v flock >/dev/null 2>&1; then
        flock -n 9 || {
            say "waiting for another command that is preparing .venv"
            flock 9
        }
    else
        python=$(pythons)
        python=${python%%$'\n'*}
        [ -z "$python" ] || "${python#* }" -I -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
    fi
}

# prepare_environment EXTRAS: afterwards $venv/bin holds jboost with these extras, words in one argument.
prepare_environment() {
    local wanted=$1
    case ${JBOOST_CUDA:-} in
        '') ;;
        12 | 13) wanted="$wanted cuda$JBOOST_CUDA" ;;
        *)
            say "JBOOST_CUDA is 12, 13 or unset, not '$JBOOST_CUDA'"
            exit 2
            ;;
    esac
    is_ready "$wanted" && return 0
    lock
    make_ready "$wanted"
    exec 9>&-
}
