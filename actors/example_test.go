package actors_test

import (
	"context"
	"fmt"

	"github.com/zkactors/zkactors/actors"
)

// A kettle is a machine: it boils when it is told to, and counts how often it
// did. Its inputs are commands in the imperative and answers in the past tense.
type kettle struct {
	boiling bool
	boiled  int
	broken  bool
}

type (
	kettleInput interface{ kettleInput() }

	boil       struct{}
	boiledOver struct{}                          // answers heat
	howOften   struct{ reply actors.Reply[int] } // answered by tellCount
	unplug     struct{}
)

func (boil) kettleInput()       {}
func (boiledOver) kettleInput() {}
func (howOften) kettleInput()   {}
func (unplug) kettleInput()     {}

type (
	kettleEffect interface{ kettleEffect() }

	heat      struct{}
	tellCount struct {
		reply actors.Reply[int]
		count int
	}
)

func (heat) kettleEffect()      {}
func (tellCount) kettleEffect() {}

func (k kettle) Ended() bool { return k.broken }

func (k kettle) Step(in kettleInput, out *actors.Effects[kettleEffect, string]) kettle {
	switch in := in.(type) {
	case boil:
		if !k.boiling {
			k.boiling = true
			out.Do = append(out.Do, heat{})
			out.Emit = append(out.Emit, "heating")
		}
	case boiledOver:
		k.boiling = false
		k.boiled++
		out.Emit = append(out.Emit, "boiled")
	case howOften:
		out.Do = append(out.Do, tellCount{in.reply, k.boiled})
	case unplug:
		k.broken = true
		out.Emit = append(out.Emit, "unplugged")
	}
	return k
}

// performKettle does what a kettle asks for.
func performKettle(do kettleEffect, answer func(kettleInput)) {
	switch do := do.(type) {
	case heat:
		go answer(boiledOver{}) // in real life: when the water is hot
	case tellCount:
		do.reply.Give(do.count)
	}
}

func startKettle() *actors.Actor[kettleInput, string] {
	return actors.Start(kettle{}, actors.Role[kettle, kettleInput, kettleEffect, string]{
		Name:    "kettle",
		Perform: performKettle,
		Stop:    unplug{},
	})
}

func ExampleActor() {
	k := startKettle()
	defer k.Close()
	events := k.Events()
	if err := k.Tell(boil{}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-events)
	fmt.Println(<-events)
	k.Close()
	for ev := range events {
		fmt.Println(ev)
	}
	fmt.Println(k.Tell(boil{}))
	// Output:
	// heating
	// boiled
	// unplugged
	// actors: ended
}

func ExampleAsk() {
	k := startKettle()
	defer k.Close()
	boiled, err := actors.Ask(context.Background(), k, func(reply actors.Reply[int]) kettleInput {
		return howOften{reply}
	})
	fmt.Println(boiled, err)
	// Output: 0 <nil>
}

func ExampleStream() {
	s := actors.NewStream[string]("greetings", nil)
	defer s.Close()
	s.Put("hello")
	s.Put("how are you")
	s.End("goodbye")
	for greeting := range s.Events() {
		fmt.Println(greeting)
	}
	// Output:
	// hello
	// how are you
	// goodbye
}
