package serving

import (
	"fmt"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/feed"
)

func (a *app) eventsCommand() *cobra.Command {
	var filter feed.Filter
	var since string
	var follow bool
	c := &cobra.Command{
		Use: "events", Short: "Show the events of all sandboxes: started, stopped, saved, …",
		Long: `Shows the events of all sandboxes that their logs still have, oldest first. With
--follow it goes on as more come; then it begins with now, unless --since says otherwise.

With --json each event is a line with a position. --since POSITION begins after that event,
at any later time. If events after it are lost, because logs keep only so many, an event
gap says so. bothy serve sends the same at /v1/events.`,
		Example: `  bothy events --follow
  bothy events --since start --type stopped --json`,
		Args: cmdline.Exactly(0, "no arguments"),
		RunE: a.OnEngine(func(cmd *cobra.Command, _ []string, e *engine.Engine) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
			defer stop()
			if filter.Sandbox != "" {
				if _, err := e.Find(filter.Sandbox); err != nil {
					return err
				}
			}
			switch {
			case since == "" && follow:
				since = feed.FromNow
			case since == "":
				since = feed.FromStart
			}
			f, err := feed.Open(e.Store, filter, since)
			if err != nil {
				return err
			}
			if follow {
				return feed.Follow(ctx, &feed.Watch{Store: e.Store}, f, time.Hour, a.showEvents)
			}
			for more := true; more && ctx.Err() == nil; {
				var list []feed.Event
				if list, more, err = f.Next(); err == nil {
					err = a.showEvents(list)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on as more come")
	c.Flags().StringVar(&since, "since", "", "begin after this position; start: with the oldest; now: with the next")
	c.Flags().StringVar(&filter.Sandbox, "sandbox", "", "only events of this sandbox")
	c.Flags().StringSliceVar(&filter.Kinds, "type", nil, "only events of these kinds, e.g. started,stopped; repeatable")
	cmdline.CompleteFlag(c, "sandbox", a.SandboxNames)
	cmdline.CompleteFlag(c, "since", cmdline.OneOf(feed.FromStart, feed.FromNow))
	return a.JSONFlag(c)
}

func (a *app) showEvents(list []feed.Event) error {
	for i := range list {
		if !a.JSON {
			if err := a.ShowEvent(list[i].Log()); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(a.Out, "%s\n", list[i].JSON()); err != nil {
			return err
		}
	}
	return nil
}
