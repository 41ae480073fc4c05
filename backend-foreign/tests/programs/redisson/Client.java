// A client of Redisson, driven by lines on stdin: see tests/all/clients/program.rs.
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

class Client {
    static RedissonClient redisson;
    static final Map<String, RLock> held = new HashMap<>();

    static String acquire(String name, String millis) {
        RLock lock = redisson.getLock(name);
        lock.lock(Long.parseLong(millis), TimeUnit.MILLISECONDS);
        held.put(name, lock);
        return "got";
    }

    /** With the token of a fenced lock. */
    static String fenced(String name, String millis) {
        var lock = redisson.getFencedLock(name);
        long token = lock.lockAndGetToken(Long.parseLong(millis), TimeUnit.MILLISECONDS);
        held.put(name, lock);
        return "got " + token;
    }

    static String release(String name) {
        try {
            held.remove(name).unlock();
            return "released";
        } catch (IllegalMonitorStateException lost) {
            return "lost";
        }
    }

    static String count(String name, Path path, int holds) throws Exception {
        for (int done = 0; done < holds; ) {
            acquire(name, "20000");
            String[] words = Files.readString(path).split(" ");
            if (!words[1].equals("theirs")) {
                Thread.sleep(1);
                Files.writeString(path, Integer.parseInt(words[0]) + 1 + " theirs");
                done++;
            }
            if (!release(name).equals("released")) throw new IllegalStateException("lost");
            Thread.sleep(30);
        }
        return "counted";
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.setThreads(2).setNettyThreads(2);
        config.useSingleServer().setAddress("redis://" + args[0] + ":" + args[1]).setConnectionMinimumIdleSize(1);
        redisson = Redisson.create(config);
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            System.out.println(switch (words[0]) {
                case "acquire" -> acquire(words[1], words[2]);
                case "fenced" -> fenced(words[1], words[2]);
                case "release" -> release(words[1]);
                case "count" -> count(words[1], Path.of(words[2]), Integer.parseInt(words[3]));
                default -> throw new IllegalArgumentException(words[0]);
            });
        }
        redisson.shutdown();
    }
}
