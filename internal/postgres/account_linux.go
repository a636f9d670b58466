package postgres

import (
	"os"
	"syscall"
)

// namespaced is root as seen from outside (it owns the files and may enter what root owns) and the given account as seen from
// inside, where it is not root and has no capability at all once the program is loaded.
func namespaced(inside account) (account, error) {
	host := account{name: "root in a user namespace", uid: os.Geteuid(), gid: os.Getegid()}
	host.restrict = func(attr *syscall.SysProcAttr) {
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: inside.uid, HostID: host.uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: inside.gid, HostID: host.gid, Size: 1}}
	}
	return host, nil
}
