// Package attacks performs attacks on real sandboxes and looks from the host
// at what they changed: files, processes, sockets, namespaces. It never asks a
// sandbox whether it is contained. Run by root, everything happens twice, as
// root and as an ordinary user.
//
// The cases have the ids of the project's attack list, D for files and F for
// the host's control surface:
//
//	D1   links the inside lays out, written or read through by the host:
//	     TestCopyOutIntoHostileWorkspace, TestCopyInRace, TestWorkspaceSwappedByLink
//	D2   a leaf exchanged between the look and the open: TestCopyInRace
//	D3   spellings of a path: TestCanaries (read), TestHostileWorkspace, TestOutputIsPlain
//	D4   hard links: TestCopyOut, TestHostileWorkspace
//	D5   raw file protocol: the inside has no channel to the gofer but the sentry's;
//	     what a sentry taken over could open is TestCanaries (unreachable)
//	D6   disk fill: TestDiskBomb, TestCopyOutSparse. Workspace and home have no quota
//	D7   mounts of what must not be shared: TestWorkspaceRefusals, TestStateDirectoryStaysHidden
//	D8   files that are trusted later: TestProjectFilesWidenNothing; review mode: not yet
//	D9   stubs left in the workspace: TestNoStubs
//	D10  predictable and foreign directories: TestControlSocket, TestForeignStateDirectory
//	D11  markers of the guest's: TestMarkersAreNotTrusted, TestStateDirectoryIsNotForged
//	D12  set-up through planted links: TestMountPointTricks, TestWorkspaceSwappedByLink,
//	     TestChownAndDevicesInWorkspace
//	D13  standard streams that are something else: TestDescriptors, TestHostileWorkspace
//	D14  archives: TestCopyOut, TestCopyIn
//	D15  image digests: no images yet; bombs in archives: TestCopyOutSparse
//	D16  shared stores: TestNothingIsShared
//	D17  ignored secrets in clones: no clones yet; in the home: TestCanaries
//
//	F1   unix sockets of the host: TestCanaries, TestDescriptors
//	F2   the control API from inside: TestCanaries (state directory), TestMarkersAreNotTrusted.
//	     There is no dashboard yet
//	F3   peers of the control socket: TestControlSocket
//	F4   provisioning API: none yet; unknown project files: TestProjectFilesWidenNothing
//	F5   project files that widen: TestProjectFilesWidenNothing
//	F6   an off switch inside: there is none; TestNoWallNoStart
//	F7   silent fallback: TestNoWallNoStart
//	F8   weaker children: no child sandboxes yet; the environment: TestEnvironmentStaysOutside
//	F9   decisions on command strings: there are none
//	F10  an agent's configuration that runs later: TestNothingIsShared; merge-back: not yet
//	F11  /proc/self/exe and leaked descriptors: TestBreakOutSet, TestDescriptors
//	F12  auxiliary programs: TestPosture (no program but bothy runs), TestHostileSidecars
//	F13  set-uid launchers: TestPosture
//	F14  injected annotations: TestProjectFilesWidenNothing
//	F15  gVisor itself, what bounds it: TestPosture, TestDescriptors; saved layers come
//	     from the state directory only: TestStateDirectoryStaysHidden
//	F16  the classic break-out set: TestBreakOutSet, TestCanaries
//	F17  bombs: TestForkBomb, TestThreadBomb, TestMemoryBomb, TestTmpBomb, TestDiskBomb,
//	     TestDescriptorBomb, TestOutputFlood, TestFrozenInit
//	F18  probes answered by the guest: TestFrozenInit, TestMarkersAreNotTrusted
//	F19  project files that run commands on the host: TestProjectFilesWidenNothing
//
// Not applicable before there is a network, secrets, templates other than the
// host, review mode and checkpoints: the rest of the list.
package attacks
