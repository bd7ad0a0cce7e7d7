// Package failcall runs a program under ptrace and makes one system call of it, or of the
// programs that it starts, fail with a chosen error, or kills it before one. It is the seam for fault injection: the
// program is the one that users run, without a hook in it.
//
// Only calls that change state count as points: a file opened for writing, write, sync,
// rename, link, unlink, mkdir, mount, socket, exec and their like. The processes of the wall
// (sentry, gofer) are let go as soon as they start: gVisor traces processes itself.
package failcall
