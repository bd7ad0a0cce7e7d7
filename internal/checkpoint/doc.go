// Package checkpoint keeps the contents of a sandbox's directories at some point, so that the
// sandbox can go back there, and others can begin from there.
//
// A checkpoint is a list of names and states (a tree for each directory), and of the places of
// the files' contents. It adds only contents that are not kept yet. A file that the kernel has
// not seen changed since the checkpoint before keeps its place there. So the cost of a checkpoint
// grows with the changes since, and with the number of names, and not with the size of the files.
//
// # Terms
//
//   - A shelf is the directory of one sandbox's checkpoints. Its head is the checkpoint that was made or
//     restored last.
//   - A point is the description of one checkpoint. Its parent is the head at the time when it was made.
//   - A source is a directory of the sandbox to keep or to restore. Its state in a checkpoint is a tree
//     of entries (package manifest).
//   - A pack is a file with the contents of many files, one after another (package packfile). A piece is
//     a part of a file with data; the rest of the file is a hole.
//   - A making is a checkpoint in the making: warm copies files while the sandbox runs, take copies the
//     rest while it is paused.
//   - Left are the names that could not be kept, such as sockets.
//   - To thin is to remove automatic checkpoints that are too many for their age.
package checkpoint
