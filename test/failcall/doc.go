// Package failcall runs a program under ptrace and makes one system call of it, or of the programs that
// it starts, fail with a chosen error, or kills it before one. This injects faults into the program that
// users run, without a hook in it.
//
// Only calls that change state count as points: a file opened for writing, write, sync, rename, link,
// unlink, mkdir, mount, socket, exec and the like. The processes of the wall (sentry, gofer) are
// released as soon as they start, because gVisor itself traces processes.
package failcall
