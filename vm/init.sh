#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# The guest's first program. It loads the modules and then runs what comes over the second serial
# line: a script a line in base64, answered by what it printed, in base64, and its exit code.
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mkdir -p /dev/hugepages /run
mount -t hugetlbfs huge /dev/hugepages
ip link set lo up
# Libraries ask for the machine's own name.
hostname guest
echo "127.0.0.1 localhost guest" >/etc/hosts
while read -r module; do
  insmod "/modules/$module" || echo "insmod $module failed"
done </modules/order
exec 3<>/dev/ttyS1
stty raw -echo <&3
echo ready >&3
while read -r line <&3; do
  echo "$line" | base64 -d >/run/script
  sh /run/script >/run/output 2>&1 </dev/null
  code=$?
  base64 /run/output >&3
  echo "exit $code" >&3
done
echo "the command line has ended"
poweroff -f
