// A client of redsync on one node, with commands from stdin: see tests/all/clients/program.rs.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var (
	sync_ *redsync.Redsync
	held  = map[string]*redsync.Mutex{}
)

func acquire(name string, millis string, more ...redsync.Option) string {
	lease, _ := strconv.Atoi(millis)
	options := append(more, redsync.WithExpiry(time.Duration(lease)*time.Millisecond), redsync.WithTries(100000))
	mutex := sync_.NewMutex(name, options...)
	if err := mutex.Lock(); err != nil {
		panic(err)
	}
	held[name] = mutex
	return "got"
}

func release(name string) string {
	if ok, _ := held[name].Unlock(); ok {
		return "released"
	}
	return "lost"
}

func count(name string, path string, holds string) string {
	wanted, _ := strconv.Atoi(holds)
	for done := 0; done < wanted; {
		acquire(name, "20000", redsync.WithRetryDelay(10*time.Millisecond))
		text, _ := os.ReadFile(path)
		words := strings.Fields(string(text))
		if words[1] != "theirs" {
			number, _ := strconv.Atoi(words[0])
			time.Sleep(time.Millisecond)
			if err := os.WriteFile(path, []byte(fmt.Sprintf("%d theirs", number+1)), 0o600); err != nil {
				panic(err)
			}
			done++
		}
		if release(name) != "released" {
			panic("lost")
		}
		time.Sleep(30 * time.Millisecond)
	}
	return "counted"
}

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Args[1] + ":" + os.Args[2]})
	sync_ = redsync.New(goredis.NewPool(client))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "acquire":
			fmt.Println(acquire(words[1], words[2]))
		case "release":
			fmt.Println(release(words[1]))
		case "count":
			fmt.Println(count(words[1], words[2], words[3]))
		}
	}
}
