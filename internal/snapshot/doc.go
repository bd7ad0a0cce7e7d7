// Package snapshot keeps the state of sandboxes, and brings it back: checkpoints, restores, forks,
// images of memory, copies of work to be judged, and the exchange of work between sandboxes. The
// format and the storage of checkpoints are those of package checkpoint. The engine owns the life
// cycle of the sandboxes.
//
// # Terms
//
//   - A checkpoint keeps the files of a sandbox. A full one also keeps the memory of its programs.
//   - A restore brings a sandbox back to a checkpoint of its own. An interrupted one is finished before
//     the next start.
//   - A fork is a new sandbox that begins from a checkpoint of another.
//   - A proof is a sandbox with the work of another, but with a home and programs of its own and without
//     leases. The commands that judge the work run in it.
//   - An exchange carries work between sandboxes on the same directories: a hand-out copies a checkpoint
//     into another sandbox, a hand-in makes a checkpoint of the result, and a join merges two states.
//   - The attendant is the process that makes the automatic checkpoints of a running sandbox.
//   - Files beneath a checkpoint belong to the host. The sandbox reads them, and no checkpoint keeps them.
package snapshot
