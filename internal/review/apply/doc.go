// Package apply brings the changes of a workspace to the host, or discards them.
//
// It writes on the host beneath the open directory. It makes new files that replace others in one
// step. Before it changes anything, it writes down each step ([record.Intent]); after a crash the next
// command finishes or undoes them.
//
// # Terms
//
//   - A layer holds the writes of the sandbox, over the host's directory. The record beside it holds the
//     host's state of each path that was applied or discarded ([record.Record]).
//   - An order is one change that the user wants to have applied, as the user saw it. Its outcome has a
//     result. To decline an order is to give it a result before the apply.
//   - A plan decides about all orders without a change to the host, and lists the steps. A step is one
//     action on the host: bring, remove, remove a directory, or set a mode.
//   - Ties are dependencies between orders. A path that becomes something else is a whole, and the
//     changes below it are its parts.
//   - Applying is the work on a plan. It stages the new files of a batch under temporary names, brings
//     them to the disk, writes the intent, and puts them in place.
//   - To settle a layer is to take out of it the changes that the host has now. That needs a layer that
//     is not mounted.
//   - A mark is the identity and the times of a file; two equal marks mean that no program wrote to it
//     meanwhile ([beneath.Mark]).
package apply
