package price

// AsOf is the day of the prices in [Usual].
const AsOf = "2026-10-06"

// Usual returns the list prices of providers for pay-per-use. It excludes discounts, batches, faster
// lanes and regions. A model that is not in the list has no price: Bothy reports that and does not count
// it as free.
//
// Source: the providers' price lists, as collected by the model_prices_and_context_window.json of the
// LiteLLM project and, for later models, by models.dev; those of Claude also as Claude Code 2.1.332
// counts. If a model has an introductory price, the list has the later one.
func Usual() List {
	return List{
		{Model: "claude-fable-5-2", Input: 8, Cached: .2, CacheWrite: 10, Output: 40},
		{Model: "claude-fable-5-1", Input: 10, Cached: .25, CacheWrite: 12.5, Output: 50},
		{Model: "claude-fable-5", Input: 10, Cached: 1, CacheWrite: 12.5, Output: 50},
		{Model: "claude-mythos-5-2", Input: 8, Cached: .2, CacheWrite: 10, Output: 40},
		{Model: "claude-mythos-5-1", Input: 10, Cached: .25, CacheWrite: 12.5, Output: 50},
		{Model: "claude-mythos-5", Input: 10, Cached: 1, CacheWrite: 12.5, Output: 50},
		{Model: "claude-opus-5-5", Input: 4, Cached: .2, CacheWrite: 5, Output: 20},
		{Model: "claude-opus-5", Input: 5, Cached: .5, CacheWrite: 6.25, Output: 25},
		{Model: "claude-opus-4-[5678]", Input: 5, Cached: .5, CacheWrite: 6.25, Output: 25},
		{Model: "claude-opus-4", Input: 15, Cached: 1.5, CacheWrite: 18.75, Output: 75},
		{Model: "claude-opus-4-1", Input: 15, Cached: 1.5, CacheWrite: 18.75, Output: 75},
		{Model: "claude-sonnet-5-5", Input: 2, Cached: .1, CacheWrite: 2.5, Output: 10},
		{Model: "claude-sonnet-5", Input: 2, Cached: .2, CacheWrite: 2.5, Output: 10},
		{Model: "claude-sonnet-4-6", Input: 3, Cached: .3, CacheWrite: 3.75, Output: 15},
		{Model: "claude-sonnet-4-5", Input: 3, Cached: .3, CacheWrite: 3.75, Output: 15, Long: 200_000},
		{Model: "claude-sonnet-4", Input: 3, Cached: .3, CacheWrite: 3.75, Output: 15, Long: 200_000},
		{Model: "claude-3-7-sonnet", Input: 3, Cached: .3, CacheWrite: 3.75, Output: 15},
		{Model: "claude-haiku-5-5", Input: .1, Cached: .01, CacheWrite: .125, Output: .5, Long: 100_000, longTimes: 5},
		{Model: "claude-haiku-4-5", Input: 1, Cached: .1, CacheWrite: 1.25, Output: 5},
		{Model: "claude-3-haiku", Input: .25, Cached: .03, CacheWrite: .3, Output: 1.25},

		{Model: "gpt-6.1-sol", Input: 2, Cached: .1, CacheWrite: 2.5, Output: 10, Long: 272_000},
		{Model: "gpt-6-astra", Input: 10, Cached: 1, CacheWrite: 12.5, Output: 50, Long: 272_000},
		{Model: "gpt-6-sol", Input: 2, Cached: .2, CacheWrite: 2.5, Output: 10, Long: 272_000},
		{Model: "gpt-6-luna", Input: .1, Cached: .01, CacheWrite: .125, Output: .5, Long: 272_000},
		{Model: "gpt-5.6", Input: 4, Cached: .4, CacheWrite: 5, Output: 20, Long: 272_000},
		{Model: "gpt-5.6-sol", Input: 4, Cached: .4, CacheWrite: 5, Output: 20, Long: 272_000},
		{Model: "gpt-5.6-terra", Input: 2, Cached: .2, CacheWrite: 2.5, Output: 12, Long: 272_000},
		{Model: "gpt-5.6-luna", Input: .2, Cached: .02, CacheWrite: .25, Output: 1.2, Long: 272_000},
		{Model: "gpt-5.5", Input: 5, Cached: .5, Output: 30, Long: 272_000},
		{Model: "gpt-5.[45]-pro", Input: 30, Cached: 3, Output: 180, Long: 272_000},
		{Model: "gpt-5.4", Input: 2.5, Cached: .25, Output: 15, Long: 272_000},
		{Model: "gpt-5.4-mini", Input: .75, Cached: .075, Output: 4.5},
		{Model: "gpt-5.4-nano", Input: .2, Cached: .02, Output: 1.25},
		{Model: "gpt-5.3-codex", Input: 1.75, Cached: .175, Output: 14},
		{Model: "gpt-5.3-codex-spark", Input: 1.75, Cached: .175, Output: 14},
		{Model: "gpt-5.2", Input: 1.75, Cached: .175, Output: 14},
		{Model: "gpt-5.2-codex", Input: 1.75, Cached: .175, Output: 14},
		{Model: "gpt-5.1-codex-mini", Input: .25, Cached: .025, Output: 2},
		{Model: "gpt-5.1-codex*", Input: 1.25, Cached: .125, Output: 10},
		{Model: "gpt-5.1", Input: 1.25, Cached: .125, Output: 10},
		{Model: "gpt-5-codex", Input: 1.25, Cached: .125, Output: 10},
		{Model: "gpt-5-mini", Input: .25, Cached: .025, Output: 2},
		{Model: "gpt-5-nano", Input: .05, Cached: .005, Output: .4},
		{Model: "gpt-5", Input: 1.25, Cached: .125, Output: 10},
		{Model: "gpt-4.1", Input: 2, Cached: .5, Output: 8},
		{Model: "gpt-4.1-mini", Input: .4, Cached: .1, Output: 1.6},
		{Model: "gpt-4.1-nano", Input: .1, Cached: .025, Output: .4},
		{Model: "gpt-4o", Input: 2.5, Cached: 1.25, Output: 10},
		{Model: "gpt-4o-mini", Input: .15, Cached: .075, Output: .6},
		{Model: "o3", Input: 2, Cached: .5, Output: 8},
		{Model: "o4-mini", Input: 1.1, Cached: .275, Output: 4.4},

		{Model: "gemini-3.8-flash", Input: 1.5, Cached: .15, Output: 7.5}, // half of it until the end of 2026
		{Model: "gemini-3.7-flash", Input: 1.5, Cached: .15, Output: 7.5},
		{Model: "gemini-3.6-flash", Input: 1.5, Cached: .15, Output: 7.5},
		{Model: "gemini-3.5-flash", Input: 1.5, Cached: .15, Output: 9},
		{Model: "gemini-3.5-flash-lite", Input: .3, Cached: .03, Output: 2.5},
		{Model: "gemini-3.1-pro*", Input: 2, Cached: .2, Output: 12, Long: 200_000},
		{Model: "gemini-3.1-flash-lite*", Input: .25, Cached: .025, Output: 1.5},
		{Model: "gemini-3-pro*", Input: 2, Cached: .2, Output: 12, Long: 200_000},
		{Model: "gemini-3-flash*", Input: .5, Cached: .05, Output: 3},
		{Model: "gemini-2.5-pro", Input: 1.25, Cached: .125, Output: 10, Long: 200_000},
		{Model: "gemini-2.5-flash", Input: .3, Cached: .03, Output: 2.5},
		{Model: "gemini-2.5-flash-lite", Input: .1, Cached: .01, Output: .4},
	}
}
