#!/bin/sh
# Runs a command of this checkout in a virtual machine: scripts/in-machine.sh COMMAND [ARG…], as root,
# with the packages debootstrap and qemu-system-x86. It is a Debian under systemd, with control groups
# of version 2, and of version 1 after KERNEL=systemd.unified_cgroup_hierarchy=0 in the environment.
# What was built here, and its Python, are there under the same paths.
set -eu

cd "$(dirname "$0")/.."
if [ $# -lt 1 ]; then
  echo "in-machine: give a command: scripts/in-machine.sh .venv/bin/tare doctor" >&2
  exit 2
fi
if ! command -v qemu-system-x86_64 >/dev/null; then
  echo "in-machine: it needs the package qemu-system-x86" >&2
  exit 3
fi
systems=$PWD/build/systems
root=$systems/machine
scripts/make-root.sh bookworm "$root" linux-image-cloud-amd64,initramfs-tools,systemd-sysv,python3,gawk,gcc,libc6-dev,libdw1,libbz2-1.0,libsqlite3-0,libssl3,libffi8,procps
rm -rf "${root:?}$PWD"
prefix=$(.venv/bin/python -c 'import sys; print(sys.base_prefix)')
[ "$prefix" != /usr ] || prefix=
tar -C / --exclude="${PWD#/}/build" --exclude=__pycache__ -cf - "${PWD#/}" ${prefix:+"${prefix#/}"} |
  tar -C "$root" -xf -
chmod 711 "$root/root" # other users run a Python that lies below it
: >"$root/etc/tmpfiles.d/tmp.conf" # so that nothing clears /tmp, should the checkout lie there
cat >"$root/command.sh" <<'COMMAND'
cd "$1" && shift && "$@"
echo $? >/status
COMMAND
arguments=""
for word in "$PWD" "$@"; do
  arguments="$arguments \"$(printf %s "$word" | sed 's/[\\"]/\\&/g; s/%/%%/g; s/\$/$$/g')\""
done
cat >"$root/etc/systemd/system/command.service" <<UNIT
[Unit]
SuccessAction=poweroff
FailureAction=poweroff
[Service]
Type=oneshot
Delegate=yes
Environment=HOME=/root LANG=C.UTF-8
ExecStart=/bin/sh /command.sh$arguments
StandardOutput=tty
TTYPath=/dev/ttyS0
UNIT
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -sf ../command.service "$root/etc/systemd/system/multi-user.target.wants/"
mke2fs -q -F -t ext4 -d "$root" "$systems/machine.img" 8G
# Without -enable-kvm it runs on any machine, slowly.
qemu-system-x86_64 -cpu max -m 3G -display none -serial stdio -nic none -no-reboot \
  -kernel "$root"/boot/vmlinuz-* -initrd "$root"/boot/initrd.img-* \
  -append "root=/dev/vda rw quiet systemd.mask=serial-getty@ttyS0.service ${KERNEL:-}" \
  -drive "file=$systems/machine.img,if=virtio,format=raw,cache=unsafe" </dev/null
status=$(debugfs -R 'cat /status' "$systems/machine.img" 2>/dev/null)
rm "$systems/machine.img"
if [ -z "$status" ]; then
  echo "in-machine: the machine ended before the command did" >&2
  exit 3
fi
exit "$status"
