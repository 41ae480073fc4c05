// A client of Spring Integration's RedisLockRegistry, driven by lines on stdin: see tests/all/clients/program.rs.
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ConcurrentModificationException;
import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.locks.Lock;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;

class Client {
    static LettuceConnectionFactory redis;
    /** By the lease, which a registry has for all of its locks. */
    static final Map<String, RedisLockRegistry> registries = new HashMap<>();
    static final Map<String, Lock> held = new HashMap<>();

    static RedisLockRegistry registry(String millis) {
        var registry = new RedisLockRegistry(redis, "app", Long.parseLong(millis));
        registry.setRedisLockType(RedisLockType.PUB_SUB_LOCK);
        return registry;
    }

    static String acquire(String name, String millis) {
        Lock lock = registries.computeIfAbsent(millis, Client::registry).obtain(name);
        lock.lock();
        held.put(name, lock);
        return "got";
    }

    static String release(String name) {
        try {
            held.remove(name).unlock();
            return "released";
        } catch (ConcurrentModificationException | IllegalStateException lost) {
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
        redis = new LettuceConnectionFactory(args[0], Integer.parseInt(args[1]));
        redis.afterPropertiesSet();
        redis.start();
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            System.out.println(switch (words[0]) {
                case "acquire" -> acquire(words[1], words[2]);
                case "release" -> release(words[1]);
                case "count" -> count(words[1], Path.of(words[2]), Integer.parseInt(words[3]));
                default -> throw new IllegalArgumentException(words[0]);
            });
        }
        System.exit(0);
    }
}
