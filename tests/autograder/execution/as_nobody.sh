#!/bin/sh
# Run a command as an unprivileged user. Python may lie below /root, which only root can enter: a
# mount namespace of its own shows just these folders there. Usage: as_nobody.sh PYTHON_PREFIX CHECKOUT COMMAND…
set -e
prefix=$1; checkout=$2; shift 2
if [ "$1" != --inside ]; then
  exec unshare --mount --propagation private sh "$0" "$prefix" "$checkout" --inside "$@"
fi
shift
case "$prefix" in
  /root/*)
    kept=$(mktemp -d)
    mount --bind "$prefix" "$kept"
    mount -t tmpfs -o mode=755 tmpfs /root
    mkdir -p "$prefix"
    mount --move "$kept" "$prefix"
    ;;
esac
exec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all "$@"
