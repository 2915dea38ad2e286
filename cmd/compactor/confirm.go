package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

func yesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "yes", Usage: "do it without asking"}
}

// confirm says what an act risks and goes on only when --yes was given or somebody
// types yes on a terminal. Without both it refuses: nobody has read the risk.
func confirm(ctx context.Context, c *cli.Context, env environment, risk string) error {
	if c.Bool("yes") {
		return nil
	}
	if !onTerminal(env.stdin) {
		return usagef("%s\nNothing was done: there is no terminal to ask on; give --yes if that is what you want", risk)
	}
	if _, err := fmt.Fprintf(env.stderr, "%s\nType yes to go on: ", risk); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	answer := make(chan string, 1)
	go func() { // It ends with the process when nobody answers.
		line, _ := bufio.NewReader(env.stdin).ReadString('\n') // An end without an answer is no yes.
		answer <- strings.TrimSpace(line)
	}()
	select {
	case text := <-answer:
		if text != "yes" {
			return usagef("nothing was done: the answer was not yes")
		}

		return nil
	case <-ctx.Done():
		return fmt.Errorf("ask: %w", context.Cause(ctx))
	}
}
