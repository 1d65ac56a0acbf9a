#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# The guest's first program. It loads the modules and then runs scripts from the second serial
# line: one a line, its checksum and itself in base64, answered by its output, in base64, and its
# exit code, or by `again` if the line, which has no flow control, has lost a part of it.
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mkdir -p /dev/hugepages /run
mount -t hugetlbfs huge /dev/hugepages
ip link set lo up
# Libraries look up the machine's name.
hostname guest
echo "127.0.0.1 localhost guest" >/etc/hosts
while read -r module; do
  insmod "/modules/$module" || echo "insmod $module failed"
done </modules/order
exec 3<>/dev/ttyS1
stty raw -echo <&3
echo ready >&3
while read -r sum line <&3; do
  echo "$line" | base64 -d >/run/script
  if [ "$(md5sum </run/script)" != "$sum  -" ]; then
    echo "exit again" >&3
    continue
  fi
  sh /run/script >/run/output 2>&1 </dev/null
  code=$?
  base64 /run/output >&3
  echo "exit $code" >&3
done
echo "the command line has ended"
poweroff -f
